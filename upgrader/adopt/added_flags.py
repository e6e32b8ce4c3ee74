"""The flags that adoption has added: kubeadm's own, which the charts have, and a static pod of another make lacks.

kube-scheduler with nothing but `--config` is such a pod. An undo gives up these flags again, as it should.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from upgrader.adopt.facts import COMPONENTS, ControllerFacts, KubeadmFacts
from upgrader.adopt.values import base_values, rendered_flags
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm, Kind, Kube

__all__ = ["added_flags"]

_CONFIG_MAPS = Kind("v1", "configmaps")
_RELEASES = ("kube-apiserver", "kubernetes")


def added_flags(
    kube: Kube, helm: Helm, controllers: Sequence[ControllerFacts], version: KubernetesVersion, charts: Path
) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Component → flags by name without dashes, as the charts render them from kubeadm's manifests alone.

    Empty where a component's manifest is on no controller. Raises ApiError or HelmError.
    """
    # One that joined again has a new manifest, which stays.
    known = {
        component: pod
        for found in (*(each.active for each in controllers), *(each.adopted for each in reversed(controllers)))
        for component, pod in found.items()
    }
    if not known.keys() >= set(COMPONENTS):
        return {}
    facts = KubeadmFacts(
        configuration={"kubernetesVersion": str(version), **_folder(kube)},
        proxy_config="",
        proxy_kubeconfig="",
        corefile="",
        dns_address="",
        dns_deployment=None,
        proxy_daemonset=None,
        controllers=(ControllerFacts(controllers[0].host, {}, known),),
    )
    values = base_values(facts, tuple(each.host.address for each in controllers), {})
    added = {}
    for release in _RELEASES:
        spec = ReleaseSpec(release, "kube-system", charts / release, values[release])
        manifest = helm.render(spec, target=version, offline=True)
        for component in COMPONENTS:
            before = known[component].flags
            if flags := rendered_flags(manifest, component):
                added[component] = {name: given for name, given in flags.items() if name not in before}
    return added


def _folder(kube: Kube) -> Mapping[str, Any]:
    """`certificatesDir`, where kubeadm's record can be read: of another folder, flags that name its files differ."""
    with suppress(ValueError):
        return KubeadmConfig.of(kube.get(_CONFIG_MAPS, KUBEADM_CONFIG_MAP, "kube-system") or {}).fields(
            ["certificatesDir"]
        )
    return {}
