"""The gate that proves that new pods work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.gates.continuity import workload_gate
from upgrader.gates.continuity.inside_pod import NO_ADDRESS, NOT_TRUSTED
from upgrader.gates.continuity.workload_gate import WorkloadGate
from upgrader.gates.pod_faults import UNSEEN
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, VerdictKind, holds, pending


@dataclass
class Workload:
    """A Deployment whose pod works after some seconds, and whose endpoint goes a second after its deletion."""

    kube: FakeKube
    clock: FakeClock
    impossible: str = ""
    created: float | None = None
    ending: float | None = None
    needs_seconds = 13.0
    says: ClassVar[str] = "starting"
    made: ClassVar[list[Workload]] = []
    removed: bool = field(default=False)

    @property
    def worked(self) -> bool:
        return self.ending is not None

    def check(self) -> Verdict:
        now = self.clock.monotonic()
        if self.created is None:
            self.created = now
            self.made.append(self)
        if self.ending is None and now - self.created >= self.needs_seconds:
            self.ending = now
        if self.ending is None:
            return pending(self.says)
        return holds("done") if now - self.ending >= 1.0 else pending("ending")

    def remove(self) -> None:
        self.removed = True


def test_pod_that_worked_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked every five seconds, it is first seen to work when its time is over; only its end is waited for then."""
    monkeypatch.setattr(workload_gate, "NewWorkload", Workload)
    Workload.made.clear()
    clock = FakeClock()
    gate = WorkloadGate(FakeKube(), clock, lambda: Baseline(version="v1.36.3", new_workload=True))
    while gate.check().kind is not VerdictKind.HOLDS:
        clock.sleep(5.0)
    assert clock.monotonic() == 20.0
    assert [item.removed for item in Workload.made] == [False]


@pytest.mark.parametrize(
    ("says", "seconds"), [(UNSEEN, 30.0), (NO_ADDRESS, 30.0), (NOT_TRUSTED, 0.0), ("is being created", None)]
)
def test_what_is_certain_is_broken(monkeypatch: pytest.MonkeyPatch, says: str, seconds: float | None) -> None:
    """What doesn't pass by waiting is broken once the second pod has said it for as long as the first one had; what
    nothing says that only starts, at once; and what may just take long, never.
    """
    monkeypatch.setattr(workload_gate, "NewWorkload", Workload)
    monkeypatch.setattr(Workload, "needs_seconds", 1000.0)
    monkeypatch.setattr(Workload, "says", f"Deployment x: {says}")
    clock = FakeClock()
    gate = WorkloadGate(FakeKube(), clock, lambda: Baseline(version="v1.36.3", new_workload=True))
    broken = []
    for _ in range(120):
        verdict = gate.check()
        assert says in verdict.reason
        if verdict.kind is VerdictKind.BROKEN:
            broken.append(clock.monotonic())
        clock.sleep(1.0)
    assert (min(broken) if broken else None) == (None if seconds is None else pytest.approx(seconds, abs=2))
    assert not broken or broken[:3] == [broken[0], broken[0] + 1, broken[0] + 2], "three in a row fail a gate"
