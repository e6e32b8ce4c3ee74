"""A plan's document for tests of those who show it, compare it or pin it."""

from __future__ import annotations

from pathlib import Path

import yaml

from upgrader.model.finding import Finding
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan
from upgrader.steps.plan_document import PlanDocument
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.step_document import ObjectChange

FROM, TO = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)


def document(name: str = "web", *, finding: str = "a finding") -> PlanDocument:
    """A plan of a release and a playbook, where others chose the name and the texts."""
    change = ObjectChange(
        f"Deployment {name}",
        "changed",
        "\n".join(["--- now", "+++ planned", "-image: a", *(f"+{line}" for line in name.split("\n"))]),
    )
    spec = ReleaseSpec(name, "shop", Path("/c"))
    before, after = (_pod(name, f"registry.k8s.io/{image}") for image in ("a:v1", f"{name}:v2"))
    release = PlannedRelease(spec, "upgrade", f"change {name}", before, after, (change,), revision=4)
    plan = Plan(FROM, TO, (release, PlannedPlaybook(Path("/p/smoke.yml"))))
    return PlanDocument.of(plan, [Finding("nodes.ready", "warning", finding, finding, finding)], {name: 185.0})


def _pod(name: str, image: str) -> str:
    containers = [{"name": name, "image": image}]
    return yaml.safe_dump({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
