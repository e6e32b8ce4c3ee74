"""What kubeadm is told of the version that runs, as it is planned. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from upgrader.model.observed import Observed
from upgrader.model.own_steps import KUBEADM_CONFIG
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.planned import PlannedStep
from upgrader.steps.release.plan import VERSIONED_RELEASES, PlannedRelease
from upgrader.steps.step_document import NOTHING_TO_UNDO, ObjectChange, Undo

__all__ = ["PlannedKubeadmConfig", "plan_kubeadm_config"]


@dataclass(frozen=True)
class PlannedKubeadmConfig(PlannedStep):
    """The version in ConfigMap `kubeadm-config`, before and after: kubeadm goes by it."""

    before: KubernetesVersion
    after: KubernetesVersion
    name: str = KUBEADM_CONFIG

    kind: ClassVar = "kubeadm-config"
    disturbs: ClassVar = False

    @property
    def action(self) -> Literal["upgrade", "unchanged"]:
        return "unchanged" if self.before == self.after else "upgrade"

    @property
    def summary(self) -> str:
        return "nothing to change" if self.before == self.after else f"kubernetesVersion: {self.before} → {self.after}"

    @property
    def changes(self) -> tuple[ObjectChange, ...]:
        """The one line that changes. The rest of the text isn't shown: others wrote it, and may have kept secrets."""
        if self.before == self.after:
            return ()
        diff = f"--- now\n+++ planned\n-kubernetesVersion: {self.before}\n+kubernetesVersion: {self.after}"
        return (ObjectChange("ConfigMap kube-system/kubeadm-config", "changed", diff),)

    @property
    def way_back(self) -> Undo:
        unchanged = self.action == "unchanged"
        return NOTHING_TO_UNDO if unchanged else Undo(self.kind, text="restore the previous version")

    def once_done(self, observed: Observed) -> Observed:
        return replace(observed, kubeadm=observed.kubeadm.at(self.after) if observed.kubeadm else None)


def plan_kubeadm_config(plan: Plan, observed: Observed) -> tuple[PlannedKubeadmConfig, ...]:
    """A step that tells kubeadm which version runs, where the plan decides that, and kubeadm made the cluster.

    () where what is written there can't be changed, too: a check says so.
    """
    decides = any(step.name in VERSIONED_RELEASES for step in planned_of(plan, PlannedRelease))
    if observed.kubeadm is None or not decides:
        return ()
    try:
        observed.kubeadm.at(plan.target)
        return (PlannedKubeadmConfig(observed.kubeadm.version, plan.target),)
    except ValueError:
        return ()
