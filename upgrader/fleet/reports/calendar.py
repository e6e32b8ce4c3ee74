"""`fleet.ics`: what is next in a campaign, as an iCalendar file (RFC 5545) for calendar programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from uuid import NAMESPACE_OID, uuid5

from upgrader import __version__
from upgrader.fleet.reports.outlook import Upcoming, upcoming
from upgrader.fleet.reports.words import soaking, waiting
from upgrader.fleet.use_cases import FleetStatus
from upgrader.model.counted import counted
from upgrader.model.redaction.printable import printable

__all__ = ["calendar", "content_line", "text"]

_LINE_BYTES = 75
"""RFC 5545, section 3.1: without the line's end."""
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""What no TEXT may have, and what is no UTF-8."""
_ESCAPES = str.maketrans({"\\": r"\\", ";": r"\;", ",": r"\,", "\n": r"\n"})


def calendar(status: FleetStatus, now: datetime) -> str:
    """The campaign itself, from its beginning on, each wait whose end is known, and the exclusions to come.

    Raises nothing for any text: names and reasons are masked, as in every report, and escaped.
    """
    campaign = status.state.campaign
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        f"PRODID:-//upgrader//{__version__}//EN",
        "METHOD:PUBLISH",
        f"NAME:{text(campaign)}",
        *_campaign(status, now),
    ]
    for each in upcoming(status, now):
        if each.wait.timed and each.wait.until is not None:
            lines += _wait(status, each, each.wait.until, now)
    lines += _exclusions(status, now)
    return "".join(map(content_line, [*lines, "END:VCALENDAR"]))


def text(value: str) -> str:
    """A value of type TEXT: masked, without control characters, escaped."""
    return _NO_TEXT.sub("\ufffd", printable(value)).translate(_ESCAPES)


def content_line(line: str) -> str:
    """A line with its end, folded after 75 bytes at most, and never within a character."""
    found, size = [""], 0
    for character in line:
        length = len(character.encode())
        if size + length > _LINE_BYTES:
            found.append(" ")
            size = 1
        found[-1] += character
        size += length
    return "\r\n".join(found) + "\r\n"


def _title(status: FleetStatus) -> str:
    return str(status.fleet.goal).capitalize()


def _campaign(status: FleetStatus, now: datetime) -> Iterator[str]:
    """A calendar must have an event, and this one is always there."""
    state = status.state
    told = f"{counted(len(status.fleet.clusters), 'cluster')} in {counted(len(status.fleet.stages), 'stage')}."
    about = f"Campaign {state.campaign}. {told}"
    summary = f"{_title(status)} begins"
    if state.ended is not None:
        summary = f"{_title(status)}: campaign"
    yield from _event(status, "", state.started or now, state.ended, now, summary, about)


def _wait(status: FleetStatus, each: Upcoming, ends: datetime, now: datetime) -> Iterator[str]:
    what = "the soak ends" if soaking(each.wait) else f"the wait for {each.wait.reason.partition(': ')[0]} ends"
    what = "the wait ends" if each.wait.stated else what
    what = what if each.closes is None else "window"
    summary = f"{_title(status)}: {each.who}: {what}"
    clusters = f"\nClusters: {', '.join(each.clusters)}" if each.clusters else ""
    waits = waiting(each.wait, "Waits")
    about = f"{waits[0].upper()}{waits[1:]}.\nCampaign {status.state.campaign}{clusters}"
    key = f"{each.who}/{each.wait.reason}/{ends.isoformat()}"
    yield from _event(status, key, ends, each.closes, now, summary, about)


def _exclusions(status: FleetStatus, now: datetime) -> Iterator[str]:
    """Those that aren't over, of clusters that aren't done."""
    if not status.state.open:
        return
    left = [each for each in status.fleet.clusters if status.state.clusters[each.name].phase == "waiting"]
    for number, exclusion in enumerate(status.fleet.exclusions):
        begins, ends = exclusion.span
        count = sum(exclusion.selector.selects(each.labels) for each in left)
        if count and ends > now:
            summary = f"{_title(status)}: no run begins (exclusion, {count} waiting)"
            about = f"Campaign {status.state.campaign}: from {exclusion.first} to {exclusion.last}, {exclusion.zone}"
            yield from _event(status, f"exclusion {number}", begins, ends, now, summary, about)


def _event(
    status: FleetStatus, key: str, begins: datetime, ends: datetime | None, now: datetime, summary: str, about: str
) -> Iterable[str]:
    """`ends` None: it takes no time."""
    found = [
        "BEGIN:VEVENT",
        f"UID:{uuid5(NAMESPACE_OID, text(f'{status.state.campaign}/{key}'))}",
        f"DTSTAMP:{_utc(now)}",
        f"DTSTART:{_utc(begins)}",
    ]
    if ends is not None and _utc(ends) > _utc(begins):
        found.append(f"DTEND:{_utc(ends)}")
    return [*found, f"SUMMARY:{text(summary)}", f"DESCRIPTION:{text(about)}", "TRANSP:TRANSPARENT", "END:VEVENT"]


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y%m%dT%H%M%SZ}"
