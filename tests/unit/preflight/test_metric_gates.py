"""Whether metric gates could pass at all is known before a run changes anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testkit.fakes.prometheus import FakePrometheus
from tests.unit.preflight.conftest import World
from upgrader.model.finding import Finding
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings
from upgrader.preflight.metric_gates import check_metric_gates

GATE = MetricGateSettings("errors", "sum(e)", GatePolicy(), maximum=1.0)


def findings(world: World, prometheus: FakePrometheus | None) -> list[Finding]:
    return list(check_metric_gates(replace(world.context(), prometheus=prometheus, metric_gates=(GATE,))))


def test_gate_that_can_be_answered(world: World) -> None:
    """A gate whose query has a value within its limits is no finding; neither are gates that nobody asked for."""
    assert findings(world, FakePrometheus({"sum(e)": (({}, 1.0),)})) == []
    assert list(check_metric_gates(world.context())) == []


@pytest.mark.parametrize("prometheus", [FakePrometheus(), FakePrometheus(refused="no answer within 5 s")])
def test_gate_that_can_not_be_answered(world: World, prometheus: FakePrometheus) -> None:
    """A run isn't begun where a gate would take it back for want of an answer."""
    (found,) = findings(world, prometheus)
    assert (found.id, found.severity, found.blocking) == ("metrics.unanswered", "error", True)
    assert (prometheus.refused or "no series") in found.diagnosis


def test_gate_that_would_not_pass(world: World) -> None:
    """A value outside the limits is a warning: the run may be what brings it back."""
    (found,) = findings(world, FakePrometheus({"sum(e)": (({}, 2.0),)}))
    assert (found.id, found.severity) == ("metrics.outside", "warning") and "2" in found.diagnosis
