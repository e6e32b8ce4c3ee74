"""Messages for people: when they come, what they say and don't say, and what a run is spared."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from testkit import example_runs as runs
from testkit.example_runs import Story, state_of
from testkit.fakes.clock import FakeClock
from testkit.fakes.http_service import FakeHttpService
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ServiceError
from upgrader.model.event import ApprovalRequested, RollbackRequested, RunResumed, StepEnded, StepStarted
from upgrader.model.observability import HttpAnswer
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.reporting.observability.messages import TOPICS, Topic
from upgrader.reporting.observability.webhook import SIGNATURE, TIMESTAMP, Webhook


def told(
    events: Any,
    service: FakeHttpService | None = None,
    *,
    state: RunState | None = None,
    topics: tuple[Topic, ...] = TOPICS,
    secret_file: Path | None = None,
    notes: list[str] | None = None,
) -> list[dict[str, Any]]:
    """What is posted of these events, up to the end of the run's process."""
    service = service or FakeHttpService()
    webhook = Webhook(
        state or RunState(),
        service,
        cluster="north-1",
        topics=topics,
        secret_file=secret_file,
        clock=FakeClock(),
        note=(notes if notes is not None else []).append,
    )
    for event in events:
        webhook.emit(event)
    webhook.end()
    webhook.close(60)
    return [json.loads(sent.body) for sent in service.sent]


def of(story: Story) -> list[Any]:
    return [event for _, event in story]


def fields(message: dict[str, Any]) -> dict[str, str]:
    return {each["title"]: each["value"] for each in message["attachments"][0]["fields"]}


def test_good_run() -> None:
    """One message when it begins, one when it ends, both with what a program needs to know."""
    began, ended = told(of(runs.GOOD))
    assert began["text"].startswith("north-1: upgrade to v1.37.1 has started: ")
    assert ended["text"] == "north-1: upgrade to v1.37.1: succeeded" and ended["attachments"][0]["color"] == "good"
    found = fields(ended)
    assert (found["Cluster"], found["Event"], found["Outcome"], found["Run"]) == (
        "north-1",
        "end",
        "succeeded",
        state_of(runs.GOOD).run,
    )


def test_run_that_is_rolled_back() -> None:
    """Failure, rollback and end come once each, with the step and the reason."""
    messages = told(of(runs.ROLLED_BACK))
    assert [fields(each)["Event"] for each in messages] == ["start", "failure", "rollback", "end"]
    assert fields(messages[1])["Step"] == "kube-apiserver" and "kube-apiserver failed: " in messages[1]["text"]
    assert "rolled-back" in messages[3]["text"]


def test_run_that_dies() -> None:
    """A run whose process ends without an end of the run is told of as interrupted."""
    assert fields(told(of(runs.GOOD)[:5])[-1])["Outcome"] == "interrupted"


def test_who_is_waited_for() -> None:
    """A step that waits for a person says by which command it goes on."""
    state = state_of(runs.GOOD[:1])
    (message, _) = told([ApprovalRequested("b", 60.0)], state=state)
    assert "`upgrader approve b --reason WHY`" in message["text"]


def test_other_processes() -> None:
    """Who resumed a run, or asked for its rollback, is named; the undos of that are not told of again."""
    state = state_of(runs.INTERRUPTED)
    resumed = told([RunResumed(state.run, "ann@desk")], state=state)
    assert "is resumed by ann@desk" in resumed[0]["text"]
    undo = [event for event in of(runs.ROLLED_BACK) if type(event).__name__ == "UndoStarted"]
    asked = told([RollbackRequested(state.run, "ann@desk"), *undo], state=state)
    assert [fields(each)["Event"] for each in asked] == ["rollback", "end"]


def test_only_what_is_asked_for() -> None:
    """Whoever wants failures alone gets nothing else."""
    assert [fields(each)["Event"] for each in told(of(runs.ROLLED_BACK), topics=("failure",))] == ["failure"]


def failing(reason: str) -> dict[str, Any]:
    """The message of a step that fails for this reason."""
    events = [*of(runs.GOOD[:1]), StepStarted("a", "", None), StepEnded("a", "failed", 1.0, reason)]
    return told(events, topics=("failure",))[0]


def test_texts_of_others() -> None:
    """A pod's log can call nobody, make no link, show no secret and no kilometres of text."""
    KNOWN.learn(["correct-horse-battery"])
    text = failing("<!channel> @here <https://evil|ok> & correct-horse-battery password: hunter2222\x1b[31m")["text"]
    assert "<" not in text and "&lt;!channel&gt;" in text and "@here" not in text and "&amp;" in text
    assert "correct-horse" not in text and "hunter2222" not in text and "\x1b" not in text
    assert len(json.dumps(failing("x" * 100_000))) < 10_000


def test_signature(tmp_path: Path) -> None:
    """A receiver that knows the secret can tell that body and time are upgrader's."""
    (tmp_path / "secret").write_text("s3cret-of-mine\n")
    service = FakeHttpService()
    told(of(runs.GOOD), service, secret_file=tmp_path / "secret")
    sent = service.sent[0]
    signed = b"v1:" + sent.headers[TIMESTAMP].encode() + b":" + sent.body
    assert sent.headers[SIGNATURE] == "v1=" + hmac.new(b"s3cret-of-mine", signed, hashlib.sha256).hexdigest()
    assert sent.headers[TIMESTAMP] == "1767225600" and (sent.method, sent.path) == ("POST", "")
    assert b"s3cret" not in sent.body


@pytest.mark.parametrize("content", [None, " \n"])
def test_no_secret_no_message(tmp_path: Path, content: str | None) -> None:
    """Without the secret that upgrader.yaml wants, nothing is sent unsigned."""
    if content is not None:
        (tmp_path / "secret").write_text(content)
    service, notes = FakeHttpService(), list[str]()
    assert told(of(runs.GOOD), service, secret_file=tmp_path / "secret", notes=notes) == []
    (note,) = notes
    assert "but the run continues" in note and "secret" in note


@pytest.mark.parametrize("answer", [HttpAnswer(500), HttpAnswer(302), ServiceError("no answer within 5 s")])
def test_server_that_fails(answer: HttpAnswer | ServiceError) -> None:
    """Each message is tried twice; the failure is noted once, whatever comes after."""
    service, notes = FakeHttpService(answer), list[str]()
    assert len(told(of(runs.ROLLED_BACK), service, notes=notes)) == 8
    assert len(notes) == 1 and "but the run continues" in notes[0]


def test_slow_server_holds_nothing_back() -> None:
    """Events are taken while the server hangs, however many; the end leaves it behind."""
    hold, notes = threading.Event(), list[str]()

    class Hanging(FakeHttpService):
        def send(self, *_: Any) -> HttpAnswer:
            hold.wait()
            return HttpAnswer(200)

    webhook = Webhook(
        state_of(runs.GOOD[:1]),
        Hanging(),
        cluster="north-1",
        topics=TOPICS,
        secret_file=None,
        clock=FakeClock(),
        note=notes.append,
    )
    for _ in range(200):
        webhook.emit(ApprovalRequested("b", 60.0))
    webhook.end()
    webhook.close(0.01)
    assert len(notes) == 1 and "too slow for the number of messages" in notes[0]
    hold.set()


def test_log_makes_no_link_and_calls_nobody() -> None:
    """Mattermost and Rocket.Chat read Markdown: a link could pose as upgrader's, an image tells who reads it."""
    log = "[approve](https://evil) ![](https://evil/x) [a][b] [b]: https://evil @ann _@here_ root@c1 r/i@sha256:ab"
    text = failing(log)["text"]
    assert not any(mark in text for mark in ("](", "][", "]:", "@ann", "@here"))
    assert "root@c1 r/i@sha256:ab" in text


@pytest.mark.parametrize("log", [".@ann", "-@ann", "done.@ann", "done-@ann", "@-ann", "@.ann"])
def test_log_calls_nobody_behind_a_point_or_a_dash(log: str) -> None:
    """Mattermost takes what begins with `@` after these for a person, and Rocket.Chat's names may begin with them."""
    text = failing(f"the pod said {log}")["text"]
    assert re.search(r"@[\w.-]", text) is None
