"""The gate that proves that new pods work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.gates.continuity import workload_gate
from upgrader.gates.continuity.workload_gate import WorkloadGate
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
            return pending("starting")
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
