"""Messages for people, and those about a run: it starts, needs attention, fails, is rolled back, ends. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from upgrader.engine.state.run_state import RunState
from upgrader.model.event import (
    ApprovalRequested,
    Event,
    RecoveryStarted,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepEnded,
    UndoStarted,
)
from upgrader.model.redaction.printable import printable
from upgrader.model.run_kind import describe_run

__all__ = ["COLOURS", "TOPICS", "Message", "Topic", "ending", "message_of", "payload"]

Topic = Literal["start", "approval", "failure", "rollback", "end"]
TOPICS: tuple[Topic, ...] = ("start", "approval", "failure", "rollback", "end")

COLOURS: Mapping[str, str] = {"failure": "danger", "rollback": "warning", "approval": "warning"}
"""By the topic; of others, it is the default of `Message`."""
_GREY = "#808080"
_OUTCOMES: dict[str, str] = {
    "succeeded": "good",
    "rolled-back": "warning",
    "failed": "danger",
    "interrupted": "warning",
}
_MOST_CHARACTERS = 1500
_MENTION = re.compile(r"(?<![a-z0-9])@(?=[\w.-])|@(?=(?:all|channel|everyone|here)\b)", re.IGNORECASE)
"""Of everybody, and of one person; not the `@` in `user@host` and `image@sha256:…`. To Mattermost, `.@ann` is one."""
_LINK = re.compile(r"\](?=[(\[:])")
"""The middle of Markdown's links and images, which Mattermost and Rocket.Chat make; Slack's have `<…>`."""
_FORMATS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class Message:
    """One message; the texts are as upgrader and others wrote them."""

    topic: Topic
    text: str
    colour: str = _GREY
    fields: dict[str, str] = field(default_factory=dict)
    """Fields for programs, by their titles."""


def message_of(event: Event, before: RunState, after: RunState) -> Message | None:
    """The message about an event, by the state of the run before and after it; None: no message."""
    match event:
        case RunStarted():
            return _message("start", after, f"{_what(after)} has started: {', '.join(event.steps)}")
        case RunResumed():
            return _message("start", after, f"{_what(after)} is resumed by {event.by}")
        case ApprovalRequested():
            text = f"{event.step} waits for an approval: `upgrader approve {event.step} --reason WHY`"
            return _message("approval", after, text, Step=event.step)
        case StepEnded(outcome="failed"):
            text = f"the step {event.step} failed: {event.reason}"
            return _message("failure", after, text, Step=event.step, Remedy=event.remedy)
        case RecoveryStarted():
            return _message(
                "failure", after, f"the API is unreachable, and is being recovered over SSH: {event.reason}"
            )
        case RollbackRequested():
            return _message("rollback", after, f"a rollback was requested by {event.by}")
        case UndoStarted() if not _goes_back(before):
            return _message("rollback", after, f"rolling back, {event.step} first, to {event.goal}", Step=event.step)
        case RunEnded():
            return ending(after)
        case _:
            return None


def ending(state: RunState) -> Message:
    """How a run has ended; without a recorded end, it was interrupted."""
    outcome = state.result
    text = f"{_what(state)}: {outcome}" + (f": {state.reason}" if state.reason else "")
    told = _message("end", state, text, Outcome=outcome, Seconds=f"{state.seconds:.0f}" if state.seconds else "")
    return Message(told.topic, told.text, _OUTCOMES[outcome], told.fields)


def payload(message: Message, name: str, *, of: str = "Cluster") -> dict[str, object]:
    """The message as Slack's incoming webhooks read it, and what is compatible with them; `name` is that `of` what it
    is about.

    Foreign texts, such as a pod's log, can't show a secret, mention anyone, or create a link.
    """
    fields = [
        {"title": title, "value": _safe(value), "short": len(value) < 40}
        for title, value in {of: name, "Event": message.topic, **message.fields}.items()
        if value
    ]
    return {
        "text": _safe(f"{name}: {message.text}"),
        "attachments": [{"color": message.colour, "fallback": _safe(message.text), "fields": fields}],
    }


def _message(topic: Topic, state: RunState, text: str, **fields: str) -> Message:
    known = {"Run": state.run, "Kind": str(state.kind), "Target": str(state.target or ""), **fields}
    return Message(topic, text, COLOURS.get(topic, _GREY), known)


def _what(state: RunState) -> str:
    return describe_run(state.kind, state.target)


def _goes_back(state: RunState) -> bool:
    """Whether that was already sent."""
    return state.rollback_to is not None or any(step.phase.startswith("und") for step in state.steps)


def _safe(text: str) -> str:
    shown = printable(text)
    cut = shown if len(shown) <= _MOST_CHARACTERS else shown[:_MOST_CHARACTERS] + " …"
    return _LINK.sub("]\u200b", _MENTION.sub("@\u200b", cut)).translate(_FORMATS)
