"""Tells people of a campaign by a webhook, as the webhook of a run does.

What they were told is in `runs/CAMPAIGN/told.json`, which is written once messages were sent, or have failed twice: a
coordinator that was killed before has its messages sent by the next one. While messages are being sent, no others are
queued: what happens meanwhile is in one message of each kind afterwards.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from upgrader.config.plain_file import read_plain
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import UpgraderError, UsageError
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.decide import Decision
from upgrader.fleet.events import CampaignEvent
from upgrader.fleet.reports.news import CampaignNews, Told
from upgrader.fleet.state import CampaignState
from upgrader.model.json_values import from_json, to_json
from upgrader.reporting.observability.delivery import Delivery
from upgrader.reporting.observability.messages import Message
from upgrader.reporting.observability.webhook import MessageSender

__all__ = ["TOLD", "Messenger"]

TOLD = "told.json"
_LEAST_SECONDS = 10.0
"""Between messages of one kind, at least: many clusters may fail one after the other."""
_MOST_BYTES = 2**20


@dataclass(frozen=True)
class _Batch:
    """Messages, and what people know with them."""

    messages: tuple[Message, ...]
    told: Told


class Messenger:
    """Takes each look of a coordinator. None of what it does ends or delays the campaign; `note` is called once if
    messages can't be sent.
    """

    def __init__(
        self, coordinator: Coordinator, sender: MessageSender, topics: Collection[str], note: Callable[[str], None]
    ) -> None:
        self._coordinator, self._clock = coordinator, coordinator.clock
        self._sender, self._topics, self._note = sender, frozenset(topics), note
        self._path = coordinator.campaign.folder / TOLD
        self._news = CampaignNews(coordinator.fleet)
        self._told = self._sent = _told(self._path)
        """What people know once all that was queued is sent; and what they know now."""
        self._known = min(self._told.events, coordinator.journal.end.seq)
        """How many of the journal's events people know; one that was restored from a backup may have fewer."""
        self._at = float("-inf")
        self._decision: Decision | None = None
        self._failed = self._closed = False
        self._writing = threading.Lock()
        self._delivery: Delivery[_Batch] = Delivery(
            "messages", self._send, "messages can't be sent to the webhook", note, of="campaign"
        )
        coordinator.tell(self._hear)

    def look(self, decision: Decision) -> None:
        """Tell what is new."""
        self._decision = decision
        self._guarded(partial(self._look, decision))

    def end(self) -> None:
        """No more looks will come: tell what was held back. Of a campaign that has ended, there may have been none."""
        self._guarded(self._last)
        self._delivery.end()

    def close(self, seconds: float) -> None:
        """Wait until all is sent, for so long at most. What is left then has failed: the next coordinator must not send
        it again, and then the one after that.
        """
        self._delivery.close(seconds)
        with self._writing:
            self._closed = True
        if self._sent is not self._told:
            with suppress(OSError):
                self._write(self._told)

    def _hear(self, event: CampaignEvent, before: CampaignState, after: CampaignState) -> None:
        self._guarded(partial(self._news.take, event, before, after, self._known))

    def _look(self, decision: Decision) -> None:
        if self._sent is self._told and self._clock.monotonic() - self._at >= _LEAST_SECONDS:
            self._put(decision)

    def _last(self) -> None:
        with suppress(UsageError):  # a journal that isn't as the coordinator has written it: that is its own end
            self._coordinator.journaled()
        decision = Decision(done=True) if self._news.state.ended is not None else self._decision
        if decision is not None:
            self._put(decision)

    def _put(self, decision: Decision) -> None:
        messages, told = self._news.messages(decision, self._told)
        wanted = tuple(each for each in messages if each.topic in self._topics)
        if wanted:
            self._at = self._clock.monotonic()
        if wanted or told != replace(self._told, events=told.events):
            self._delivery.put(_Batch(wanted, told))
            self._told = told

    def _send(self, batch: _Batch) -> None:
        """Raises the first failure, after all messages were tried."""
        failures: list[Exception] = []
        for each in batch.messages:
            try:
                self._sender.send(each)
            except Exception as error:  # noqa: BLE001  # whatever it was, the others are to be sent
                failures.append(error)
        try:
            with self._writing:
                if not self._closed:
                    self._write(batch.told)
        finally:
            self._sent = batch.told
        if failures:
            raise failures[0]

    def _write(self, told: Told) -> None:
        write_atomic(self._path, json.dumps(to_json(told, mask=False)).encode())

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do what isn't worth a campaign's end."""
        if self._failed:
            return
        try:
            work()
        except UpgraderError as error:
            self._fail(error.message)
        except Exception as error:  # noqa: BLE001  # a fault of ours in a message must not end a campaign
            self._fail(f"{type(error).__name__}: {error}")

    def _fail(self, why: str) -> None:
        self._failed = True
        self._note(f"messages to the webhook can't be made, but the campaign continues: {why}")


def _told(path: Path) -> Told:
    """Without the file, and with one that isn't valid, people know nothing: better twice than not at all."""
    try:
        told: Told = from_json(Told, json.loads(read_plain(path, _MOST_BYTES)), "")
        return told
    except (OSError, ValueError, RecursionError):
        return Told()
