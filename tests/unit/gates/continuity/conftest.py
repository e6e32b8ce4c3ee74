"""A run's continuity on a living cluster."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.gates.continuity.living_cluster import CONTROLLERS, LivingKube
from upgrader.gates.continuity.continuity import Continuity
from upgrader.model.gate_settings import GatePolicy


@pytest.fixture
def kube() -> LivingKube:
    """A cluster where everything works."""
    return LivingKube()


@pytest.fixture
def continuity(kube: LivingKube, clock: FakeClock) -> Continuity:
    """Its continuity, with the baseline taken."""
    made = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    made.compare_with(made.take(lambda text: None, begun=False), clock.now())
    return made
