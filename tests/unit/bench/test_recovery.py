"""The recovery benchmark: what it counts, what it reads from a node's logs, when it cuts."""

from __future__ import annotations

import pytest

from bench.recovery.boot import milestones, parse
from bench.recovery.cuts import moments, phase_of
from bench.recovery.measure import Result
from bench.recovery.page import boot_table, cause_table
from bench.recovery.watch import Seen, back, gaps
from tests.unit.bench.tables import row


def test_back_is_the_first_answer_after_the_outage() -> None:
    """What answered before the damage doesn't count, and going away again is told with its length."""
    changes = [Seen(0.1, True), Seen(5.0, False), Seen(9.0, True), Seen(12.0, False), Seen(13.0, True)]
    assert back(changes, after=5.0) == 9.0
    assert gaps(changes, after=9.0) == (1.0,)
    assert back([Seen(5.0, False)]) is None


def test_each_part_of_an_upgrade_gets_a_cut() -> None:
    """The moments are random, the same for the same seed, and one falls in each equal part of the time."""
    found = moments(7, 10, 100.0)
    assert found == moments(7, 10, 100.0) != moments(8, 10, 100.0)
    assert [int(moment // 10) for moment in found] == list(range(10))


def test_milestones_of_a_boot() -> None:
    """Lines of before the boot, of other pods and of later restarts don't count; nanoseconds are understood."""
    copy = "/var/log/pods/kube-system_kube-apiserver-checkpoint-controller-1_ab12"
    printed = "\n".join(
        [
            "kubelet journal 99.000000 controller-1 systemd[1]: Started kubelet.service",
            "kubelet journal 100.500000 controller-1 systemd[1]: Started kubelet.service",
            f"{copy}/address/0.log 1970-01-01T00:01:43.250000001Z stdout F PRIVATE_ADDRESS='127.1.2.3'",
            f"{copy}/kube-apiserver/0.log 1970-01-01T00:01:46.5+00:00 stderr F I1 Serving securely on 127.1.2.3:6443",
            f"{copy}/kube-apiserver/1.log 1970-01-01T00:02:46.5+00:00 stderr F I1 Serving securely on 127.1.2.3:6443",
            "/var/log/pods/default_other_cd/address/0.log 1970-01-01T00:01:41Z stdout F other",
            "a line that is none",
        ]
    )
    assert milestones(parse(printed, 100.0), 100.0) == pytest.approx(
        {
            "kubelet starts": 0.5,
            "the copy's first container runs": 3.250000,
            "its kube-apiserver runs": 6.5,
            "…and serves": 6.5,
        }
    )


def test_the_phase_is_that_of_the_last_line() -> None:
    """Helm and gates of a step are told apart, and so is a run that has not begun or is going back."""
    started = {"type": "StepStarted", "data": {"step": "kube-apiserver"}}
    assert phase_of([]) == "before the first step"
    assert phase_of([started]) == "kube-apiserver, Helm"
    assert phase_of([started, {**started, "type": "StepApplied"}]) == "kube-apiserver, gates"
    assert phase_of([started, {"type": "Note", "data": {}}]) == "kube-apiserver, Helm"
    assert phase_of([started, {**started, "type": "UndoStarted"}]) == "undoing kube-apiserver"


def test_tables_have_medians_and_leave_out_what_did_not_happen() -> None:
    """A median over the measurements of a cause; a time that was never met is an empty cell, not a zero."""
    results = [Result("cut", "checkpoint", 1.0, api, None, milestones={"a": api}) for api in (8.0, 30.0, 9.0)]
    cause = row(cause_table(results), "cut")
    assert (cause["SSH, s"], cause["API, s"], cause["all done, s"]) == ("1.0", "9.0", "")
    assert (cause["lost again"], cause["times"]) == ("no", "3")
    assert row(boot_table(results), "a")["after, s"] == "9.00"
