"""The gate of ConfigMap `kubeadm-config`: kubeadm believes what is true."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.model.outcome import Verdict, broken, holds
from upgrader.model.own_steps import KUBEADM_CONFIG
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, Kube

__all__ = ["KubeadmConfigGate"]

_CONFIG_MAPS = Kind("v1", "configmaps")
_SYSTEM = "kube-system"


@dataclass(frozen=True)
class KubeadmConfigGate:
    """kubeadm's ConfigMap has this version as `kubernetesVersion`."""

    kube: Kube
    version: KubernetesVersion
    name: str = KUBEADM_CONFIG

    def check(self) -> Verdict:
        try:
            found = self.kube.get(_CONFIG_MAPS, KUBEADM_CONFIG_MAP, _SYSTEM)
            now = KubeadmConfig.of(found).version if found is not None else None
        except ApiError as error:
            return unanswered(f"ConfigMap {KUBEADM_CONFIG_MAP}", error)
        except ValueError as error:
            return self._broken(f"can't be read: {error}")
        if now is None:
            return self._broken("is gone")
        return holds(f"kubernetesVersion is {now}") if now == self.version else self._broken(f"says {now}")

    def _broken(self, what: str) -> Verdict:
        return broken(
            f"ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP} {what}, not {self.version}",
            remedy=f"Find out what changed it (`kubeadm upgrade`?): kubectl -n {_SYSTEM} get configmap "
            f"{KUBEADM_CONFIG_MAP} -o yaml --show-managed-fields",
        )
