"""Log lines, as a log collector reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upgrader.in_cluster.checkpointer.logs import LOG, set_up


def test_each_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """Time, level, message and extra fields are keys of their own; a value that JSON lacks is written as text."""
    set_up("info")
    LOG.debug("too much")
    LOG.warning("standby pod put in place", extra={"generation": 3, "path": Path("/etc")})
    line = json.loads(capsys.readouterr().out)
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "warning", "message": "standby pod put in place", "generation": 3, "path": "/etc"}


def test_an_exception_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback is part of its own object, not lines that no collector can read."""
    set_up("info")
    try:
        raise OSError("disk gone")
    except OSError:
        LOG.exception("failed")
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["exception"].endswith("OSError: disk gone")
