"""How API servers of tests end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from testkit import api_servers

_REQUEST_TIMEOUT_SECONDS = 60.0
"""kube-apiserver's `--request-timeout`: it ends only once its last request has, whose client waits for this long."""


class _Lasting:
    """A process that is asked how long it may take to end."""

    given = 0.0
    killed = False

    def __init__(self, command: Sequence[str], **_: Any) -> None:
        self.command = command

    def terminate(self) -> None:
        pass

    def kill(self) -> None:
        type(self).killed = True

    def wait(self, timeout: float = 0.0) -> int:
        if not self.killed:
            type(self).given = timeout
            raise subprocess.TimeoutExpired(list(self.command), timeout)
        return -9


def test_a_server_may_end_its_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets longer than one request may take. One that doesn't end then is killed, and that is an error."""
    monkeypatch.setattr(subprocess, "Popen", _Lasting)
    monkeypatch.setattr(api_servers, "stretched", lambda seconds: seconds)
    with pytest.raises(subprocess.TimeoutExpired), api_servers._process(["kube-apiserver"], 1):
        pass
    assert _Lasting.given >= 1.5 * _REQUEST_TIMEOUT_SECONDS and _Lasting.killed
