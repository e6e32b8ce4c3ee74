"""What is said of later hops before the first one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from upgrader.app.forecast import forecast
from upgrader.app.wiring import Session
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import CHECKS
from upgrader.steps.plan import Plan

V135, V136, V137 = (KubernetesVersion(1, minor, 1) for minor in (35, 36, 37))


class _Session:
    """Each check of the families that are asked for finds something."""

    def __init__(self, target: KubernetesVersion) -> None:
        self.target = target

    def at(self, target: KubernetesVersion) -> _Session:
        return _Session(target)

    def upgrade_plan(self, observed: Observed, *_: Any) -> Plan:
        return Plan(observed.server, self.target, ())

    def preflight(self, observed: Observed, plan: Plan, families: Collection[str]) -> tuple[Finding, ...]:
        return tuple(Finding(f"{name}.x", "warning", "", "", "") for name, _ in CHECKS if name in families)


def test_format_that_a_later_hops_kubeadm_has_lost_is_known_before_the_first() -> None:
    """Only a kubeadm of an older minor can rewrite it; a hop that was foreseen asks nobody again."""
    session = cast(Session, _Session(V136))
    (ahead,) = forecast(session, Observed(V135, {}, {}), Plan(V135, V136, ()), [V137], None)
    assert ahead.plan.target == V137
    assert "kubeadm-config.x" in [finding.id for finding in ahead.findings]
