"""Writes into ConfigMap `kubeadm-config` which version runs, as kubeadm does after an upgrade of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.errors import ApiError, ApiUnavailable, Blocked, StepFailed
from upgrader.model.kubeadm_config import CLUSTER_CONFIGURATION, KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.model.own_steps import KUBEADM_CONFIG
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Kind, Kube, KubeObject
from upgrader.wait_and_retry import may_be_repeated, retry

__all__ = ["KubeadmConfigStep"]

_CONFIG_MAPS = Kind("v1", "configmaps")
_SYSTEM = "kube-system"
_ATTEMPTS = 6
_PAUSE_SECONDS = 5.0
_REMEDY = f"Check its content: kubectl -n {_SYSTEM} get configmap {KUBEADM_CONFIG_MAP} -o yaml"


@dataclass(frozen=True)
class KubeadmConfigStep:
    """Changes `kubernetesVersion` alone. Safe to repeat: it writes nothing where that is already the version."""

    kube: Kube
    clock: Clock
    before: KubernetesVersion
    after: KubernetesVersion
    name: str = KUBEADM_CONFIG

    def summary(self) -> str:
        return f"kubernetesVersion: {self.before} → {self.after}"

    def capture(self) -> RestorePoint:
        """The version that was planned from. Raises Blocked where it is another one by now."""
        try:
            now = KubeadmConfig.of(self._read()).version
        except ValueError as error:
            raise _unreadable(error) from error
        if now not in (self.before, self.after):
            raise Blocked(
                f"ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP} has {now}, but had {self.before} when the run was planned",
                remedy="Find out what changed it (`kubeadm upgrade`?). Only one tool may upgrade this cluster.",
            )
        return RestorePoint(kubeadm=self.before)

    def apply(self, note: Callable[[str], None]) -> None:
        """Raises StepFailed where it can't be written."""
        try:
            self._write(self.after, note)
        except ApiError as error:
            raise StepFailed(f"ConfigMap {KUBEADM_CONFIG_MAP}: {error.message}", remedy=error.remedy) from error

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises ApiUnavailable where nothing answers. One that is gone or can't be read, or a change that is refused,
        is no reason to leave the control plane at a version that failed.
        """
        assert point.kubeadm is not None, "this step can only undo its own restore point"
        try:
            self._write(point.kubeadm, note)
        except ApiUnavailable:
            raise
        except (StepFailed, ApiError) as error:
            note(f"it is not restored: {error.message}")

    def _write(self, version: KubernetesVersion, note: Callable[[str], None]) -> None:
        """Where somebody writes it at the same moment, what they wrote is read, and changed in turn."""
        what = f"the API to accept a change of ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP}"
        retry(
            self.clock,
            lambda: self._write_once(version, note),
            pause=_pause,
            attempts=_ATTEMPTS,
            what=what,
            note=note,
        )

    def _write_once(self, version: KubernetesVersion, note: Callable[[str], None]) -> None:
        found = self._read()
        config = KubeadmConfig.of(found)
        try:
            now, text = config.version, config.at(version).text
        except ValueError as error:
            raise _unreadable(error) from error
        if now == version:
            note(f"kubernetesVersion is {version}")
            return
        changes = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "data": {CLUSTER_CONFIGURATION: text},
        }
        self.kube.patch(_CONFIG_MAPS, KUBEADM_CONFIG_MAP, changes, _SYSTEM)
        note(f"kubernetesVersion: {now} → {version}")

    def _read(self) -> KubeObject:
        found = self.kube.get(_CONFIG_MAPS, KUBEADM_CONFIG_MAP, _SYSTEM)
        if found is None:
            raise StepFailed(
                f"ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP} was deleted after the run was planned",
                remedy="Have kubeadm write it again (kubeadm init phase upload-config kubeadm --config FILE); or run "
                "`upgrader rollback`, then start a new run, which skips this step.",
            )
        return found


def _pause(error: Exception) -> float | None:
    return _PAUSE_SECONDS if may_be_repeated(error) else None


def _unreadable(error: ValueError) -> StepFailed:
    return StepFailed(f"ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP} can't be updated: {error}", remedy=_REMEDY)
