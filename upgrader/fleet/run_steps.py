"""What runs of this machine are doing, as their own output says: it is in the campaign's folder, and no cluster is
asked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.app.event_lines import read_line
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.fleet.local_executor import EVENTS
from upgrader.model.first_words import first_words

__all__ = ["RunSteps"]

_BYTES = 1 << 18
"""Read at a time: a run of a night writes less, so that only a coordinator that begins late needs several times."""


@dataclass
class _Output:
    """The output of one attempt, as far as it was read."""

    place: int = 0
    rest: bytes = b""
    """The beginning of a line."""
    state: RunState = field(default_factory=RunState)


class RunSteps:
    """Follows the output of attempts, each line once."""

    def __init__(self) -> None:
        self._outputs: dict[Path, _Output] = {}

    def doing(self, attempt: Path) -> str:
        """`3 of 9 kube-apiserver: waiting for its gates`; "" if nothing says it: a Job's output is elsewhere."""
        output = self._outputs.setdefault(attempt, _Output())
        try:
            with (attempt / EVENTS).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == output.place:
                    return _doing(output.state)
                if size < output.place:  # it was truncated: what is written from now on is at another place
                    output.place, output.rest = 0, b""
                file.seek(output.place)
                content = file.read(_BYTES)
        except OSError:  # the coordinator reads it, too, and says what is wrong
            return ""
        output.place += len(content)
        *lines, output.rest = (output.rest + content).split(b"\n")
        output.rest = output.rest if len(output.rest) < _BYTES else b""  # no line of ours is so long
        for line in lines:
            output.state = _after(output.state, line)
        return _doing(output.state)

    def forget(self, known: set[Path]) -> None:
        """Forget all others: they have ended."""
        self._outputs = {attempt: output for attempt, output in self._outputs.items() if attempt in known}


def _after(state: RunState, line: bytes) -> RunState:
    try:
        time, event = read_line(line)
        return follow(state, event, time) if event is not None else state
    except (ValueError, RecursionError):  # a playbook can have written the line
        return state


def _doing(state: RunState) -> str:
    if state.outcome is not None:
        return f"ended: {state.outcome}"
    step = next((each for each in reversed(state.steps) if each.active), None)
    if step is None:
        return first_words(state.doing)
    place = f"{state.planned.index(step.name) + 1} of {len(state.planned)} " if step.name in state.planned else ""
    if step.check is not None:
        return f"{place}{step.name}: {first_words(step.check.verdict.reason) or step.check.gate}"
    return f"{place}{step.name}: {first_words(step.note)}" if step.note else f"{place}{first_words(state.doing)}"
