"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from upgrader.in_cluster.shared.json_logs import JsonFormatter


def line(message: str, **extra: object) -> str:
    """What is written."""
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", **extra})
    return JsonFormatter().format(record)


def test_a_line_says_what_the_caller_passed() -> None:
    """With the message and the level, on one line."""
    found = line("denied", reason="a\nb", count=3, pods=["db-0"])
    assert "\n" not in found
    assert {**json.loads(found), "time": ""} == {
        "time": "",
        "level": "info",
        "message": "denied",
        "reason": "a\nb",
        "count": 3,
        "pods": ["db-0"],
    }


@pytest.mark.parametrize("value", ["x" * 300_000, ["db-0"] * 100_000])
def test_a_line_has_a_size(value: object) -> None:
    """What others have written is in many lines: an annotation of 256 KiB, an answer of a server. It is cut, with its
    length, and so is an error's traceback, of which the end is what happened.
    """
    found = line(str(value), reason=value, count=3)
    assert len(found) < 10_000 and json.loads(found)["count"] == 3
    assert json.loads(found)["message"].endswith(f"… ({len(str(value))} characters)")
    try:
        raise ValueError(f"{value} in the end")
    except ValueError:
        found = line("failed", exc_info=sys.exc_info())
    assert len(found) < 10_000 and json.loads(found)["exception"].endswith(" in the end")
