"""`junit.xml`: how outcomes map to test results."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from testkit import example_runs as runs
from testkit.example_runs import Story, state_of
from upgrader.engine.state.run_state import GateState, RunState, StepState
from upgrader.reporting.report.junit import report_junit, suites_of


def results(story: Story) -> dict[str, str]:
    """How each test ended, by `suite/test`, as a CI system would read the file."""
    root = ElementTree.fromstring(report_junit(state_of(story)).encode())
    found = {}
    for suite in root:
        for case in suite:
            outcome = case[0].tag if len(case) else "passed"
            found[f"{suite.attrib['name']}/{case.attrib['name']}"] = outcome
    return found


def test_good_run_passes() -> None:
    """A run that succeeded has no test that did not pass, and one test for each gate."""
    found = results(runs.GOOD)
    assert set(found.values()) == {"passed"}
    assert "kube-apiserver/gate continuity" in found and found["run/upgrade to v1.37.1"] == "passed"


def test_failed_step() -> None:
    """Broken is a failure, unknown an error, not begun skipped, and what passed stays passed."""
    found = results(runs.ROLLED_BACK)
    assert found["run/upgrade to v1.37.1"] == "failure"
    assert found["kube-apiserver/change and gates"] == "failure"
    assert found["kube-apiserver/gate deployment/kube-apiserver"] == "failure"
    assert found["kube-apiserver/gate checkpoint/kube-apiserver"] == "error"
    assert found["kube-apiserver/gate nodes"] == "passed"
    assert found["kube-apiserver/rollback"] == "passed"
    assert found["kubernetes/change and gates"] == "skipped"


def test_rollback_that_failed_is_a_failure() -> None:
    """The undo is a test of its own."""
    assert results(runs.STUCK)["kube-apiserver/rollback"] == "failure"


def test_interrupted_run_is_an_error() -> None:
    """Nobody knows what became of it: neither passed nor failed."""
    found = results(runs.INTERRUPTED)
    assert found["run/upgrade to v1.37.1"] == "error"
    assert found["kube-apiserver/change and gates"] == "error"
    assert found["kube-apiserver/gate deployment/kube-apiserver"] == "error"


def test_rollback_that_was_requested_is_no_failure() -> None:
    """An operator's own rollback did what it should."""
    state = RunState("r", outcome="rolled-back", rollback_to="", steps=(StepState("a", "undone", seconds=2.0),))
    (run, step) = suites_of(state)
    assert run.cases[0].result == "passed"
    assert [case.result for case in step.cases] == ["passed", "passed"]


@pytest.mark.parametrize(
    ("phase", "outcome", "result"),
    [
        ("failed", "pending", "failure"),
        ("failed", "holds", "skipped"),
        ("gating", "pending", "error"),
        ("gating", "holds", "error"),
        ("gating", "broken", "failure"),
        ("failed", "of a newer version", "error"),
    ],
)
def test_gate_that_did_not_pass(phase: str, outcome: str, result: str) -> None:
    """Not met when its step failed: failure. Not decided, or not known: error, never passed."""
    reason = "gate g: not met" if phase == "failed" else ""
    step = StepState("a", phase, reason=reason, gates=(GateState("g", outcome, reason="1 of 2"),))  # type: ignore[arg-type]
    case = suites_of(RunState("r", steps=(step,)))[1].cases[1]
    assert (case.name, case.result) == ("gate g", result)


def test_undo_that_was_interrupted_is_an_error() -> None:
    """A step that passed and whose rollback was cut off: the change had passed, the rollback is not known."""
    step = StepState("a", "undoing", seconds=3.0)
    assert [case.result for case in suites_of(RunState("r", steps=(step,)))[1].cases] == ["passed", "error"]


def test_counts_are_those_of_the_tests() -> None:
    """CI systems read the sums of the root and of each suite."""
    root = ElementTree.fromstring(report_junit(state_of(runs.ROLLED_BACK)).encode())
    assert int(root.attrib["tests"]) == sum(int(suite.attrib["tests"]) for suite in root)
    for suite in root:
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))
        assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))


def test_hostile_texts_stay_text() -> None:
    """A log that ends the element, or has what XML can't have, makes no other document."""
    root = ElementTree.fromstring(report_junit(state_of(runs.HOSTILE)).encode())
    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "failure", "skipped"}
    assert "<script>alert(1)</script>" in str(root[0][0][0].text)
