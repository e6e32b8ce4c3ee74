"""The gate of ConfigMap `kubelet-config`: nodes that join get what the others have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.model.kubelet_config import KUBELET_CONFIG_MAP, KubeletConfig
from upgrader.model.outcome import Verdict, broken, holds
from upgrader.model.own_steps import KUBELET_CONFIG
from upgrader.ports import Kind, Kube

__all__ = ["KubeletConfigGate"]

_CONFIG_MAPS = Kind("v1", "configmaps")
_SYSTEM = "kube-system"


@dataclass(frozen=True)
class KubeletConfigGate:
    """kubeadm's ConfigMap of kubelets has these fields."""

    kube: Kube
    fields: Mapping[str, Any]
    name: str = KUBELET_CONFIG

    def check(self) -> Verdict:
        try:
            found = self.kube.get(_CONFIG_MAPS, KUBELET_CONFIG_MAP, _SYSTEM)
            lacking = KubeletConfig.of(found).lacks(self.fields) if found is not None else None
        except ApiError as error:
            return unanswered(f"ConfigMap {KUBELET_CONFIG_MAP}", error)
        except ValueError as error:
            return self._broken(f"can't be read: {error}")
        if lacking is None:
            return self._broken("is gone")
        return self._broken(f"lacks {', '.join(lacking)}") if lacking else holds(f"it has {', '.join(self.fields)}")

    def _broken(self, what: str) -> Verdict:
        return broken(
            f"ConfigMap {_SYSTEM}/{KUBELET_CONFIG_MAP} {what}",
            remedy=f"Find out what changed it (`kubeadm upgrade`?): kubectl -n {_SYSTEM} get configmap "
            f"{KUBELET_CONFIG_MAP} -o yaml --show-managed-fields",
        )
