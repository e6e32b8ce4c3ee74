"""The campaigns of a fleet folder: `runs/CAMPAIGN/journal.jsonl`, and what persons have asked for meanwhile.

Only a coordinator, which holds the folder's lock, writes the journal. A command such as `fleet pause` writes a file to
`runs/CAMPAIGN/requests/`; the coordinator puts it into the journal, by its name only once, and removes the file.
Readers count both.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import cast

from upgrader.config.fleet_files import FLEET, INVENTORY
from upgrader.config.plain_file import read_plain
from upgrader.config.yaml_document import shown
from upgrader.engine.journal.atomic import write_atomic
from upgrader.engine.journal.decode import UnknownEvent
from upgrader.engine.journal.journal_file import JOURNAL, Journal, JournalPlace, first_line, read_further
from upgrader.engine.journal.record import Record, plain, time_of
from upgrader.errors import UsageError
from upgrader.fleet.events import EVENTS, REQUESTS, CampaignEvent, CampaignStarted, Request
from upgrader.fleet.state import CampaignState, fold
from upgrader.model.json_values import from_json
from upgrader.ports import Clock

__all__ = ["INPUTS", "KUBECONFIG", "Campaign", "CampaignReader", "begin", "fleet_files", "newest_campaign"]

INPUTS, KUBECONFIG = "inputs", "kubeconfig"
"""Beside the attempts of a cluster: what its run in progress works with, as copies."""
_NAME = re.compile(r"\d{8}T\d{6}-fleet-.")
_GOES_ON = "upgrader fleet run"
_UNREADABLE = 10**9
"""Of a journal whose first line is damaged, or can't be read: it counts as the newest, so that it is named."""


@dataclass(frozen=True)
class _Asked:
    path: Path
    time: datetime
    request: Request
    sequence: int
    """Its place among the others, whatever clocks said; 0: an older version wrote it, and its name has the time."""


@dataclass(frozen=True)
class Campaign:
    """A campaign's folder."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    def attempt(self, cluster: str, number: int) -> Path:
        """Where the output of one of a cluster's runs is."""
        return self.folder / "clusters" / cluster / str(number)

    def journaled(self) -> CampaignState:
        """What the journal says. Raises UsageError for one that isn't valid, or is of a newer version."""
        return fold(CampaignReader(self).further())

    def state(self) -> CampaignState:
        """What the journal and the requests that aren't in it yet say.

        Raises UsageError for a journal, or a request, that isn't valid, and for one of a newer version.
        """
        state = self.journaled()
        return fold(
            ((each.time, each.request) for each in self._asked() if each.path.stem not in state.requests), state
        )

    def changed_files(self, folder: Path) -> str:
        """`FILE:LINE:`, and that it differs from what the campaign was begun with; "" where nothing does."""
        for name in (FLEET, INVENTORY):
            try:
                before, now = ((each / name).read_bytes().splitlines() for each in (self.folder, folder))
            except OSError as error:
                return f"{error.filename}: can't be read: {error.strerror}"
            if before != now:
                same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
                return f"{shown(folder / name)}:{same + 1}: has changed since the campaign began"
        return ""

    def ask(self, request: Request, clock: Clock) -> None:
        """Have the coordinator that runs, or the next one, do this, after what was asked for before. Raises UsageError
        if it can't be written.
        """
        now, folder = clock.now(), self._requests_folder
        name = f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"
        content = {
            "time": now.isoformat(),
            "sequence": 1 + max((each.sequence for each in self._asked()), default=0),
            "type": type(request).__name__,
            "data": plain(replace(request, request=name)),
        }
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            write_atomic(folder / f"{name}.json", json.dumps(content).encode())
        except OSError as error:
            raise UsageError(
                f"{folder} can't be written: {error.strerror}",
                remedy="Run it as the user who runs `upgrader fleet run`.",
            ) from error

    @property
    def is_asked(self) -> bool:
        """Whether there is a request that isn't in the journal yet."""
        return bool(self._requests())

    def take_requests(self, journal: Journal, state: CampaignState) -> bool:
        """Put what was asked for into the journal, which says `state`, each once; whether there was anything."""
        asked = self._asked()
        for each in asked:
            if each.path.stem not in state.requests:
                journal.emit(each.request)
            each.path.unlink(missing_ok=True)
        return bool(asked)

    @property
    def _requests_folder(self) -> Path:
        return self.folder / "requests"

    def _requests(self) -> list[Path]:
        """Raises UsageError for a folder that can't be read: a pause may be in it."""
        folder = self._requests_folder
        try:
            names = os.listdir(folder)
        except FileNotFoundError:  # nothing was asked for yet
            return []
        except OSError as error:
            raise _unreadable(folder, error) from error
        return [folder / name for name in sorted(names) if name.endswith(".json") and not name.startswith(".")]

    def _asked(self) -> list[_Asked]:
        """Oldest first."""
        found = []
        for path in self._requests():
            try:
                content = json.loads(read_plain(path))
                request: Request = from_json(REQUESTS[content["type"]], content["data"], "data")
                sequence: int = from_json(int, content.get("sequence", 0), "sequence")
                found.append(_Asked(path, time_of(content["time"]), request, sequence))
            except FileNotFoundError:  # the coordinator has just taken it
                continue
            except OSError as error:
                raise _unreadable(path, error) from error
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise UsageError(f"{path} is not a valid request: {error}", remedy="Remove it.") from error
        return sorted(found, key=lambda each: each.sequence)

    def reopen(self, clock: Clock) -> Journal:
        """Continue its journal; the caller holds the folder's lock. Raises UsageError."""
        return Journal.reopen(self.folder / JOURNAL, clock, events=EVENTS, goes_on=_GOES_ON)


@dataclass
class CampaignReader:
    """Reads a campaign's journal again and again, each line once: of 1,000 clusters, it has thousands of lines."""

    campaign: Campaign
    place: JournalPlace = field(default_factory=JournalPlace)
    """Behind the last line that was read."""

    def further(self) -> tuple[tuple[datetime, CampaignEvent], ...]:
        """The events that were written since it was read last. Raises UsageError, as `Campaign.journaled`."""
        path = self.campaign.folder / JOURNAL
        records, place = read_further(path, self.place, EVENTS)
        events = tuple(_events(path, records))
        self.place = place
        return events


def _unreadable(path: Path, error: OSError) -> UsageError:
    """Of a request, or of all: root may have asked for it, and to remove it would undo that."""
    return UsageError(
        f"{path} can't be read: {error.strerror}",
        remedy="Give the user who runs `upgrader fleet run` access to it. If it isn't a request, remove it.",
    )


def _events(path: Path, records: Iterable[Record]) -> Iterator[tuple[datetime, CampaignEvent]]:
    for record in records:
        if isinstance(record.event, UnknownEvent):
            raise UsageError(
                f"{path}:{record.seq + 1}: an event of type {record.event.type}, which this version doesn't know",
                remedy="Use the version of upgrader that wrote it.",
            )
        yield record.time, cast(CampaignEvent, record.event)


def fleet_files(folder: Path) -> dict[str, bytes]:
    """What is in fleet.yaml and fleet-inventory.yaml now. Raises UsageError."""
    try:
        return {name: (folder / name).read_bytes() for name in (FLEET, INVENTORY)}
    except OSError as error:
        raise UsageError(f"{error.filename} can't be read: {error.strerror}") from error


def begin(folder: Path, started: CampaignStarted, files: Mapping[str, bytes], clock: Clock) -> tuple[Campaign, Journal]:
    """A new campaign of a fleet folder, with its first event and with the `fleet_files` that were confirmed; the caller
    holds the folder's lock, under which it gets its `sequence`. Raises UsageError.
    """
    campaign = Campaign(folder / "runs" / started.campaign)
    sequence = 1 + max((number for number, _ in _in_order(folder) if number != _UNREADABLE), default=0)
    try:
        campaign.folder.mkdir(mode=0o700)
        for name, content in files.items():
            write_atomic(campaign.folder / name, content)
        journal = Journal(campaign.folder / JOURNAL, clock, goes_on=_GOES_ON)
    except OSError as error:
        raise UsageError(f"{campaign.folder} can't be written: {error.strerror}") from error
    journal.emit(replace(started, sequence=sequence))
    return campaign, journal


def newest_campaign(folder: Path) -> Campaign | None:
    """The newest campaign of a fleet folder, by its `sequence`, as clocks may be wrong; None where there is none. One
    that has no event yet was never begun.
    """
    return next((Campaign(path) for _, path in reversed(_in_order(folder))), None)


def _in_order(folder: Path) -> list[tuple[int, Path]]:
    """The campaigns that were begun, with their `sequence`, oldest first."""
    found = (path for path in (folder / "runs").glob("*/") if _NAME.match(path.name) and not path.is_symlink())
    return sorted((number, path) for path in found if (number := _sequence(path / JOURNAL)) is not None)


def _sequence(journal: Path) -> int | None:
    """The number in a journal's first line; None where there is no whole line."""
    try:
        if not journal.is_file():
            return None
        line = first_line(journal)
        return int(json.loads(line)["data"].get("sequence", 0)) if line.endswith(b"\n") else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _UNREADABLE
