"""`fleet.ics`: what is next, in a form that any calendar program can read."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.fleet_campaigns import HOSTILE, campaign_of
from upgrader.fleet.decide import Decision
from upgrader.fleet.reports.calendar import calendar, content_line, text
from upgrader.model.redaction.printable import printable

_UNESCAPED = {"n": "\n", "\\": "\\", ";": ";", ",": ","}


def unfolded(content: str) -> list[str]:
    """The lines of a calendar as RFC 5545, section 3.1, has them read."""
    assert content.endswith("\r\n")
    return content.replace("\r\n ", "").removesuffix("\r\n").split("\r\n")


def events(content: str) -> list[dict[str, str]]:
    """The properties of each event, with their values unescaped."""
    found: list[dict[str, str]] = []
    for line in unfolded(content):
        name, _, value = line.partition(":")
        if line == "BEGIN:VEVENT":
            found.append({})
        elif found:
            found[-1][name] = read(value)
    return found


def read(value: str) -> str:
    """The text that an escaped value is of; it has no character that must be escaped."""
    assert re.fullmatch(r"(?:[^\\;,\n]|\\[\\;,n])*", value), value
    return re.sub(r"\\(.)", lambda match: _UNESCAPED[match[1]], value)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_read_again(value: str) -> None:
    """Escaped, folded, unfolded and read again, a text is what people see in every report, and stays one property."""
    folded = content_line(f"SUMMARY:{text(value)}")
    lines = folded.encode().split(b"\r\n")
    assert lines.pop() == b"" and all(len(line) <= 75 for line in lines)
    assert all(line.startswith(b" ") for line in lines[1:])
    for line in lines:
        line.decode()  # no character is cut in two
        assert not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", line)
    (whole,) = unfolded(folded)
    assert read(whole.removeprefix("SUMMARY:")) == re.sub(r"[\x0b-\x1f\x7f]", "\ufffd", printable(value))


@given(st.integers(0, 200), st.sampled_from("aé€😀"))
def test_folded_at_the_limit(length: int, character: str) -> None:
    """No line is longer than 75 bytes, and none is shorter than it must be, whatever its characters take."""
    line = character * length
    pieces = content_line(line).removesuffix("\r\n").split("\r\n")
    assert "".join([pieces[0], *(piece[1:] for piece in pieces[1:])]) == line
    assert all(75 - 4 < len(piece.encode()) <= 75 for piece in pieces[:-1])


def test_what_is_next() -> None:
    """The campaign, the window with its end, how long an API is asked again, and the exclusion; times are UTC."""
    shown = campaign_of(500)
    found = {each["SUMMARY"].partition(": ")[2]: each for each in events(calendar(shown.status, shown.now))}
    assert found[""]["DTSTART"] == "20261130T210000Z" and "DTEND" not in found[""]
    api = next(each for name, each in found.items() if name.endswith("the wait for its API to answer ends"))
    assert api["DTSTART"] == "20261204T003600Z" and "DTEND" not in api
    opens = next(each for name, each in found.items() if name.endswith("window"))
    assert (opens["DTSTART"], opens["DTEND"]) == ("20261202T210000Z", "20261202T230000Z")
    assert "eu-central-449.example" not in opens["DESCRIPTION"] and "and 132 more" in opens["SUMMARY"]
    closed = found["no run begins (exclusion, 186 waiting)"]
    assert (closed["DTSTART"], closed["DTEND"]) == ("20261202T230000Z", "20261203T230000Z")
    assert len({each["UID"] for each in found.values()}) == len(found) == 4


def test_same_event_keeps_its_identity() -> None:
    """Made again later, an event has the UID that it had, so that a calendar replaces it."""
    shown = campaign_of(20)
    later = calendar(shown.status, shown.now.replace(minute=51))
    before, after = events(calendar(shown.status, shown.now)), events(later)
    assert [each["UID"] for each in before] == [each["UID"] for each in after]
    assert before[0]["DTSTAMP"] != after[0]["DTSTAMP"]


@pytest.mark.parametrize("reason", [HOSTILE, "half of a character: \ud800"])
def test_hostile_texts_make_no_event(reason: str) -> None:
    """An error message can't end a line, begin an event, or keep the calendar from being written."""
    shown = campaign_of(20, reason=reason)
    plain = campaign_of(20)
    lines = unfolded(calendar(shown.status, shown.now))
    assert lines.count("BEGIN:VEVENT") == len(events(calendar(plain.status, plain.now)))


def test_calendar_of_a_campaign_that_has_ended() -> None:
    """It has one event, from its beginning to its end: a calendar without any is not valid."""
    shown = campaign_of(5)
    status = replace(shown.status, state=replace(shown.status.state, ended=shown.now), decision=Decision(done=True))
    (event,) = events(calendar(status, shown.now))
    assert (event["DTSTART"], event["DTEND"]) == ("20261130T210000Z", "20261202T005000Z")
