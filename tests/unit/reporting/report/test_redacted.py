"""Reports for artifacts: names and addresses are replaced, each by the same word."""

from __future__ import annotations

import pytest

from testkit import example_runs as runs
from testkit.example_runs import state_of
from upgrader.engine.state.run_state import RunState, StepState, TimedNote
from upgrader.model.event import StepApproved
from upgrader.model.health_before import HealthBefore
from upgrader.reporting.report.formats import FILES, report_text
from upgrader.reporting.report.redacted import redacted


def shown(text: str, *hosts: str) -> str:
    """What is shown of a reason."""
    return redacted(RunState(reason=text), hosts).reason


@pytest.mark.parametrize("story", [runs.RECOVERED, runs.INTERRUPTED], ids=["recovered", "interrupted"])
def test_no_form_has_a_name_or_an_address(story: runs.Story) -> None:
    """Page, JSON, JUnit and Markdown, by everything that is in them: titles of bars, too."""
    state = redacted(state_of(story), ("controller-1",))
    for form in FILES:
        text = report_text(state, form, redacted=True)
        for name in ("controller-1", "192.168.77", "anna", "build-7", "corp.example"):
            assert name not in text, (form, name)
        assert "kube-apiserver" in text and "v1.37.1" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a and b: a again", "host-1 and host-2: host-1 again"),
        ("pod kube-apiserver-a on a", "pod kube-apiserver-host-1 on host-1"),
        ("https://10.0.0.1:6443 and 10.0.0.2, then 10.0.0.1", "https://address-1:6443 and address-2, then address-1"),
        ("[fd00::1]:6443 and fe80::1%eth0", "[address-1]:6443 and address-2"),
        ("resumed by anna@laptop", "resumed by person-1@host-3"),
        ("/home/anna/clusters/one", "/home/person-1/clusters/one"),
        ("https://api.corp.example:6443", "https://domain-1:6443"),
        ("registry.corp.example/apiserver:v1.37.1", "domain-1/apiserver:v1.37.1"),
        ("registry.corp/apiserver", "domain-1/apiserver"),
    ],
)
def test_names_and_addresses_are_replaced(text: str, said: str) -> None:
    """By a word for each, the same wherever it appears."""
    assert shown(text, "a", "b") == said


@pytest.mark.parametrize(
    "text",
    [
        "kube-apiserver v1.36.3 → v1.37.1 at 10:00:04",
        "backup.none: set backup.recipients",
        "registry.k8s.io/kube-apiserver:v1.37.1@sha256:0123",
        "options.go:263, values/kube-apiserver.yaml, kubelet.service",
        "127.0.0.1:6443, 0.0.0.0, ::1",
        "kubernetes.default.svc and kubernetes.default.svc.cluster.local",
        "controllers and controller-12",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    """Versions, times, ids of checks, public registries, files and loopback addresses are what a report is read for."""
    assert shown(text, "controller-1") == text


def test_nodes_are_known_from_the_journal() -> None:
    """Workers that were Ready and nodes that were upgraded are hosts, without an inventory."""
    state = RunState(
        health_before=HealthBefore(workers=("w9",)), reason="w9 is gone", steps=(StepState("w", "passed"),)
    )
    assert redacted(state).reason == "host-1 is gone"


def test_host_called_like_an_outcome() -> None:
    """A host named `passed` is replaced in texts, and no outcome changes."""
    step = StepState("a", "passed", reason="passed is down")
    found = redacted(RunState(steps=(step,)), ("passed",)).steps[0]
    assert (found.phase, found.reason) == ("passed", "host-1 is down")


def test_state_keeps_its_shape() -> None:
    """Steps that appear twice, as begun and as planned, still belong together."""
    state = redacted(RunState(planned=("nodes-a",), steps=(StepState("nodes-a", "passed"),)), ("a",))
    assert [step.name for step in state.all_steps] == ["nodes-host-1"]
    assert isinstance(redacted(state_of(runs.GOOD)).notes[0], TimedNote)


def test_who_approved_is_replaced() -> None:
    """A person may have written any name: it is known from the approval, and replaced in every text."""
    approvals = (StepApproved("a", "Ann Onym", "ok"), StepApproved("b", "bob@desk", "ok"))
    state = redacted(RunState(reason="approved by Ann Onym: ok, then by bob@desk", approvals=approvals))
    assert state.reason == "approved by person-1: ok, then by person-2@host-1"
    assert [item.by for item in state.approvals] == ["person-1", "person-2@host-1"]
