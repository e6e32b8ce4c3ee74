"""The use cases behind `upgrader guard off` and `upgrader guard on`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.wiring import open_kube, system_clock
from upgrader.recover.webhook_bypass.configurations import Webhook
from upgrader.recover.webhook_bypass.switch import switch_off, switch_on

__all__ = ["switch_guard_off", "switch_guard_on"]

_SECONDS = 30.0
"""A webhook's timeout is at most 30 s, and the API server answers after that."""


def switch_guard_off(folder: Path, names: Sequence[str], done: Callable[[Webhook], None]) -> None:
    """As `switch_off`, on a cluster folder's cluster."""
    with open_kube(folder, _SECONDS) as kube:
        switch_off(kube, system_clock(), names, done)


def switch_guard_on(folder: Path, names: Sequence[str], done: Callable[[Webhook], None], front_end: FrontEnd) -> None:
    """As `switch_on`, on a cluster folder's cluster."""
    with open_kube(folder, _SECONDS) as kube:
        switch_on(kube, system_clock(), names, done, front_end.notify, front_end.doing)
