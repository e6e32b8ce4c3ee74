"""The question for an approval, on a real terminal: a run of one step waits for it."""

from __future__ import annotations

import json
import os
import pty
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testkit.command import REPOSITORY
from testkit.terminal import Shown, on_terminal
from upgrader.cli.ui.approval_question import ApprovalQuestion

_PROGRAM = """
import dataclasses, json, sys
from pathlib import Path
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from tests.unit.engine.conftest import Recorder, ScriptedStep, run
from upgrader.adapters.clock import SystemClock
from upgrader.engine.execution.runner import Runner
from upgrader.engine.execution.stop_request import StopRequest, stop_on_signals
from upgrader.model.event import Note
from upgrader.pipeline import PipelineStep
from upgrader.cli.ui.reporters import choose_reporter

kube, stop, kept, diary = FakeKube(), StopRequest(), Recorder(), []
kube.raw_answers["/readyz"] = "ok"
folder = Path(sys.argv[1])

class Both:
    def emit(self, event):
        kept.emit(event)
        display.emit(event)

with choose_reporter(sys.stderr, sys.stdin, by="ann@desk") as display, \\
        stop_on_signals(stop, lambda text: display.emit(Note(text))):
    runner = Runner(kube=kube, clock=SystemClock(), reporter=Both(), stop=stop, recovery=FakeRecovery(kube),
                    patience_seconds=60.0, folder=folder, typed=display.approval)
    result = run(runner, PipelineStep(ScriptedStep("roll", diary), (), (), approval_seconds=60.0))
events = [{"type": type(event).__name__, **dataclasses.asdict(event)} for event in kept.events]
told = {"outcome": result.outcome, "reason": result.reason, "remedy": result.remedy, "diary": diary, "events": events}
(folder / "told.json").write_text(json.dumps(told, default=str))
"""
ASKED = "Approve roll? [y/n]:"


def asked(
    folder: Path, *answers: tuple[str, str | Callable[[], object]], typed_ahead: str = ""
) -> tuple[Shown, dict[str, Any]]:
    """Answer so, and return what stands on the terminal, and what the run has recorded."""
    command = [sys.executable, "-c", _PROGRAM, str(folder)]
    environment = {"PYTHONPATH": str(REPOSITORY)}
    shown = on_terminal(
        command,
        shown_as="run",
        timeout_seconds=300,
        environment=environment,
        answers=answers,
        typed_ahead=typed_ahead,
    )
    assert shown.exit_code == 0, shown
    return shown, json.loads((folder / "told.json").read_text())


def approvals(told: dict[str, Any]) -> list[tuple[str, str]]:
    """Who approved, and why, according to the journal."""
    return [(event["by"], event["reason"]) for event in told["events"] if event["type"] == "StepApproved"]


def test_yes(tmp_path: Path) -> None:
    """The step begins; who said yes, and why, is in the journal and stays on the terminal."""
    shown, told = asked(tmp_path, (ASKED, "y\r"), ("Why? (for the journal):", "the dashboards are green\r"))
    assert (told["outcome"], told["diary"]) == ("succeeded", ["apply roll"])
    assert approvals(told) == [("ann@desk", "the dashboards are green")]
    assert shown.lacks("roll: approved by ann@desk: the dashboards are green", "upgrader approve roll") == []


def test_no(tmp_path: Path) -> None:
    """The step doesn't begin, and the run ends as one that can be resumed or rolled back; who said no, and why."""
    _, told = asked(tmp_path, (ASKED, "no\r"), ("Why not? (for the journal):", "half of the shop is down\r"))
    assert (told["outcome"], told["diary"]) == ("interrupted", [])
    assert told["reason"] == "ann@desk did not approve step roll: half of the shop is down"
    assert told["events"][-1]["reason"] == told["reason"]
    assert "upgrader resume" in told["remedy"] and "upgrader rollback" in told["remedy"]


def test_what_is_neither(tmp_path: Path) -> None:
    """Enter alone is no answer, nor is another word; a yes without a reason isn't one either."""
    again, why = f"{ASKED} maybe {ASKED}", "Why? (for the journal):"
    _, told = asked(
        tmp_path,
        (ASKED, "maybe\r"),
        (" ".join(again.split()), "\r"),
        (ASKED, "Y\r"),
        (why, " \r"),
        (why, "looked at it\r"),
    )
    assert approvals(told) == [("ann@desk", "looked at it")]


def test_end_of_input(tmp_path: Path) -> None:
    """Ctrl-D is no answer: the run says that it waits on, and takes the approval that comes another way."""
    by_file = (tmp_path / "approve-roll").write_text
    shown, told = asked(tmp_path, (ASKED, "\x04"), ("end of input", lambda: by_file("Bob: called Ann\n")))
    assert (told["outcome"], approvals(told)) == ("succeeded", [("Bob", "called Ann")])
    assert shown.lacks("roll: approved by Bob: called Ann") == []


def test_ctrl_c(tmp_path: Path) -> None:
    """It stops the run where nothing has begun, and approves of nothing."""
    _, told = asked(tmp_path, (ASKED, "\x03"))
    assert (told["outcome"], told["diary"], approvals(told)) == ("interrupted", [], [])
    assert "stopped on request" in told["reason"]


def test_approved_elsewhere(tmp_path: Path) -> None:
    """While the question stands, an approval from elsewhere counts, and the question is taken back."""
    by_file = (tmp_path / "approve-roll").write_text
    shown, told = asked(tmp_path, (ASKED, lambda: by_file("Bob: from my desk\n")))
    assert (told["outcome"], approvals(told)) == ("succeeded", [("Bob", "from my desk")])
    assert shown.lacks("roll: approved by Bob: from my desk") == []


def test_typed_before_it_was_asked(tmp_path: Path) -> None:
    """What was in the terminal's buffer before the question is no answer to it."""
    _, told = asked(tmp_path, (ASKED, "\x03"), typed_ahead="y\rtyped ahead\r")
    assert (told["outcome"], approvals(told)) == ("interrupted", [])


_SHELL = """
import os, subprocess, sys
job = subprocess.Popen([sys.executable, "-c", sys.argv[1]], process_group=0)
_, status = os.waitpid(job.pid, os.WUNTRACED)
if os.WIFSTOPPED(status):
    print("the run was stopped by signal", os.WSTOPSIG(status))
    job.kill()
"""
_JOB = """
import sys
from upgrader.cli.ui.approval_question import ApprovalQuestion

def prompt(text):
    sys.stderr.write(text)
    sys.stderr.flush()

question = ApprovalQuestion(sys.stdin, prompt, "ann@desk")
question.ask("roll")
print("answered:", question.answer())
question.withdraw()
print("the run goes on")
"""


def test_run_in_the_background_is_not_stopped() -> None:
    """A run that its shell has put behind another command asks there, too, and waits for approvals from elsewhere: a
    process that is stopped in its middle would lose the cluster's lock.
    """
    command = [sys.executable, "-c", _SHELL, _JOB]
    environment = {"PYTHONPATH": str(REPOSITORY)}
    shown = on_terminal(command, shown_as="run &", timeout_seconds=60, environment=environment, answers=[("-", "")])
    assert shown.lacks(ASKED, "answered: None", "the run goes on") == [], shown


def test_terminal_that_is_closed_when_it_is_asked() -> None:
    """A terminal that has just hung up ends no run with a traceback: nobody answers there."""
    ours, theirs = pty.openpty()
    with open(theirs, closefd=True) as terminal:
        os.close(ours)
        question = ApprovalQuestion(terminal, lambda _: None, "ann@desk")
        question.ask("roll")
        assert question.answer() is None and not question.open


def test_name_that_a_terminal_would_obey() -> None:
    """A playbook's file may be named so that its step clears the screen: what is approved of stays to be seen."""
    ours, theirs = pty.openpty()
    written: list[str] = []
    with open(theirs, closefd=True) as terminal, open(ours, closefd=True):
        ApprovalQuestion(terminal, written.append, "ann@desk").ask("re\x1b[2Jboot")
    assert written == ["Approve re\ufffd[2Jboot? [y/n]: "]
