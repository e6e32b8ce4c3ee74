"""The run can update ConfigMap kubeadm-config, and kubeadm of the new version can read it."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP
from upgrader.preflight.context import SYSTEM, PreflightContext

__all__ = ["check_kubeadm_config"]

_LAST_V1BETA3 = (1, 36)
"""The last minor whose kubeadm reads that format; from the sources of kubeadm."""
_OLDER = ("kubeadm.k8s.io/v1alpha3", "kubeadm.k8s.io/v1beta1", "kubeadm.k8s.io/v1beta2")
"""No kubeadm of a version that is upgraded to reads these."""


def check_kubeadm_config(context: PreflightContext) -> Iterator[Finding]:
    """Only clusters that kubeadm made have it."""
    config = context.observed.kubeadm
    if config is None:
        return
    try:
        config.at(context.target)
        written = config.api_version
    except ValueError as error:
        yield Finding(
            "kubeadm-config.unreadable",
            "warning",
            f"ConfigMap {SYSTEM}/{KUBEADM_CONFIG_MAP} can't be updated: {error}",
            "kubeadm reads the cluster's version from it. The run leaves it unchanged, so a later `kubeadm join` or "
            "`kubeadm upgrade` might fail or use the wrong version.",
            "Recreate it with kubeadm: kubeadm init phase upload-config kubeadm --config FILE",
        )
        return
    lost = written.endswith("/v1beta3") and (context.target.major, context.target.minor) > _LAST_V1BETA3
    if lost or written in _OLDER:
        yield Finding(
            "kubeadm-config.format",
            "warning",
            f"kubeadm {context.target} can't read ConfigMap {SYSTEM}/{KUBEADM_CONFIG_MAP}: it is written as {written}",
            "`kubeadm join`, `kubeadm upgrade` and `kubeadm certs renew` of that version fail. The running cluster is "
            "not affected.",
            "On a controller, before its kubeadm is upgraded, have kubeadm write it in its newest format "
            "(docs/kubeadm.md).",
        )
