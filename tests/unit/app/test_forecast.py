"""What is said of later hops before the first one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from upgrader.app.forecast import Forecast, _ahead, forecast
from upgrader.app.upgrade import _once
from upgrader.app.wiring import Session
from upgrader.model.finding import Finding, Severity
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.observed import Observed
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import CHECKS
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.step_document import NodeChange

V135, V136, V137 = (KubernetesVersion(1, minor, 1) for minor in (35, 36, 37))


@dataclass
class _Session:
    """Each check of the families that are asked for finds something."""

    target: KubernetesVersion
    known_rehearsal: object = None

    def at(self, target: KubernetesVersion) -> _Session:
        return _Session(target)

    def upgrade_plan(self, observed: Observed, *_: Any) -> Plan:
        changes = tuple(NodeChange(name, old, self.target) for name, old in observed.kubelets.items())
        nodes = PlannedNodes(NodePool("workers"), changes, self.target, NodeSource("packages"), 1.0, 1, Path("/p"))
        return Plan(observed.server, self.target, (nodes,))

    def preflight(self, observed: Observed, plan: Plan, families: Collection[str]) -> tuple[Finding, ...]:
        return tuple(Finding(f"{name}.x", "warning", "", "", "") for name, _ in CHECKS if name in families)


def test_format_that_a_later_hops_kubeadm_has_lost_is_known_before_the_first() -> None:
    """Only a kubeadm of an older minor can rewrite it; a hop that was foreseen asks nobody again."""
    session = cast(Session, _Session(V136))
    (ahead,) = forecast(session, Observed(V135, {}, {}), Plan(V135, V136, ()), [V137], None)
    assert ahead.plan.target == V137
    assert "kubeadm-config.x" in [finding.id for finding in ahead.findings]


@pytest.mark.parametrize("upgraded", [True, False])
def test_what_later_kubelets_need_is_known_before_the_first_hop(upgraded: bool) -> None:
    """Systems and programs, where that hop upgrades nodes; one that leaves them alone has no answer of its own."""
    session = cast(Session, _Session(V136))
    observed = Observed(V135, {"w": V135} if upgraded else {}, {})
    (ahead,) = forecast(session, observed, Plan(V135, V136, ()), [V137], None)
    asked = {finding.id for finding in ahead.findings}
    assert ({"os-support.x", "node-sources.x"} <= asked) is upgraded
    assert "nodes.x" not in asked, "who is drained is known only then"


@pytest.mark.parametrize(("playbook", "severity"), [(True, "warning"), (False, "error")])
def test_system_that_a_playbook_may_upgrade_blocks_no_later_hop(playbook: bool, severity: Severity) -> None:
    """No plan knows what a playbook of an earlier hop upgrades; without one, nothing would."""
    steps = (PlannedPlaybook(Path("os.yml")),) if playbook else ()
    ahead = _ahead(Finding("os-support.containerd", "error", "", "", ""), Plan(V136, V137, steps))
    assert ahead.severity == severity


def test_warning_that_a_later_hop_has_as_an_error_is_told_again() -> None:
    """Cgroups of version 1 are deprecated for one kubelet, and refused by the next: known before the first hop."""

    def found(severity: Severity) -> Finding:
        return Finding("os-support.cgroup-v1", severity, "cgroups of version 1: w", "", "")

    plan = Plan(V136, V137, ())
    hops = [Forecast(plan, (found("warning"),)), Forecast(plan, (found("error"),)), Forecast(plan, (found("error"),))]
    told = [hop.findings for hop in _once([found("warning")], hops, Skips())]
    assert told == [(), (found("error"),), ()]
