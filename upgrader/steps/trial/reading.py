"""What became of a program that was tried, by its pod's status and its own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from upgrader.model.redaction.printable import mask_secrets
from upgrader.ports import KubeObject
from upgrader.steps.trial.harmless import got_through

__all__ = ["CONTAINER", "Reading", "last_words", "reading"]

CONTAINER = "trial"
"""The program's; a webhook may have put others beside it."""

_FATAL = re.compile(r'^Error: |^panic: |^F\d{4} |"command failed"|^fatal error: ')
"""How Kubernetes' components begin what they end with."""
_MOST_LINES, _MOST_CHARACTERS = 12, 1500
_NEVER_PULLED = frozenset({"ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"})
_NOT_THE_PROGRAM = frozenset({"ContainerStatusUnknown", "OOMKilled"})
_KILLED = 128 + 9


@dataclass(frozen=True)
class Reading:
    """`waiting`: not known yet; `unknown`: it won't be, and `words` say why."""

    state: Literal["waiting", "read", "refused", "unknown"]
    words: str = ""


def reading(component: str, found: KubeObject, log: Callable[[], str]) -> Reading:
    """What a pod's status says; `log` is read only where the program has run."""
    status = found.get("status") or {}
    own = (each for each in status.get("containerStatuses") or () if each.get("name") == CONTAINER)
    container: Mapping[str, Any] = next(own, {})
    state = container.get("state") or {}
    if terminated := state.get("terminated"):
        return _ended(component, terminated, log)
    if status.get("phase") == "Failed":
        return Reading("unknown", f"{status.get('reason')}: {status.get('message') or 'the kubelet gave no reason'}")
    if state.get("running") is not None:
        through = got_through(component, log(), None)
        return Reading("read") if through else Reading("waiting", "it is still running")
    waiting = state.get("waiting") or {}
    words = ": ".join(filter(None, (waiting.get("reason"), waiting.get("message")))) or "its pod has not started"
    return Reading("unknown" if waiting.get("reason") in _NEVER_PULLED else "waiting", words)


def last_words(text: str) -> str:
    """The log from the line that says why the program exits; otherwise the end of the log."""
    # Half of a secret would not be known as one any more.
    lines = mask_secrets(text).strip().splitlines()
    begin = next((index for index, line in enumerate(lines) if _FATAL.search(line)), None)
    shown = lines[-_MOST_LINES:] if begin is None else lines[begin : begin + _MOST_LINES]
    return "\n".join(shown)[:_MOST_CHARACTERS]


def _ended(component: str, terminated: Mapping[str, Any], log: Callable[[], str]) -> Reading:
    reason, code = str(terminated.get("reason") or ""), int(terminated.get("exitCode") or 0)
    message = str(terminated.get("message") or "")
    if reason in _NOT_THE_PROGRAM or code == _KILLED:
        return Reading("unknown", f"it was killed ({reason or code})")
    if code == 0 and got_through(component, "", 0):
        return Reading("read")
    if reason == "StartError":
        return Reading("refused", message or reason)
    words = last_words(log() or message)
    if got_through(component, words, code):
        return Reading("read")
    if code == 0:
        return Reading("unknown", f"it exited without an error message: {words}")
    return Reading("refused", words or f"it exited with {code}, without output")
