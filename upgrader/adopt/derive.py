"""Values for the charts, derived from kubeadm's facts and proved by rendering: every flag comes out the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upgrader.adopt.facts import COMPONENTS, KubeadmFacts
from upgrader.adopt.values import base_values, extra_args, merged, missing_flags, rendered_flags
from upgrader.errors import Inhibited
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Helm

__all__ = ["derive_values"]

Values = dict[str, Any]

_WHERE = {
    "kube-apiserver": ("kube-apiserver", ()),
    "kube-controller-manager": ("kubernetes", ("controllerManager",)),
    "kube-scheduler": ("kubernetes", ("scheduler",)),
}
"""Component → the release that runs it, and where in its values the component's `extraArgs` are."""


def derive_values(
    facts: KubeadmFacts, addresses: tuple[str, ...], own: Mapping[str, Mapping[str, Any]], helm: Helm, charts: Path
) -> dict[str, Values]:
    """Release → complete values. What the operator's own values say (`own`) stands; the rest is kubeadm's.

    Raises Inhibited when a flag of a static pod would be lost or would change, or differs between controllers.
    """
    _same_everywhere(facts)
    values = {name: merged(base, own.get(name, {})) for name, base in base_values(facts, addresses, {}).items()}
    for component in COMPONENTS:
        release, path = _WHERE[component]
        lost = missing_flags(facts.component(component), _rendered(helm, charts, release, values[release], component))
        part = values[release]
        for key in path:
            part = part[key]
        # What the operator has put into extraArgs on purpose wins over the static pod.
        args = {**extra_args(lost), **part.get("extraArgs", {})}
        if args:
            part["extraArgs"] = args
        chosen = own.get(release, {})
        for key in path:
            chosen = chosen.get(key, {})
        _prove(facts, component, _rendered(helm, charts, release, values[release], component), chosen)
    return values


def _rendered(helm: Helm, charts: Path, release: str, values: Values, component: str) -> Mapping[str, tuple[str, ...]]:
    return rendered_flags(helm.render(ReleaseSpec(release, "kube-system", charts / release, values)), component)


def _prove(
    facts: KubeadmFacts, component: str, rendered: Mapping[str, tuple[str, ...]], chosen: Mapping[str, Any]
) -> None:
    static = facts.component(component)
    lost = {name for name in missing_flags(static, rendered) if name not in chosen.get("extraArgs", {})}
    if lost:
        flags = ", ".join(f"--{name}={','.join(static.flags[name])}" for name in sorted(lost))
        raise Inhibited(
            f"{component}'s static pod has flags that the chart can't take over: {flags}",
            remedy="Take them out of the static pod, or set them in the release's `extraArgs`.",
        )


def _same_everywhere(facts: KubeadmFacts) -> None:
    """One chart serves all controllers, so their flags must agree (other than their own addresses)."""
    for component in COMPONENTS:
        first = facts.component(component)
        for controller in facts.controllers:
            other = controller.known(component)
            differing = {
                name
                for name in {*first.flags, *(other.flags if other else ())} - {"advertise-address"}
                if other and first.flags.get(name) != other.flags.get(name)
            }
            if differing:
                raise Inhibited(
                    f"{component} on {controller.host.name} differs from {facts.controllers[0].host.name} in "
                    f"{', '.join(f'--{name}' for name in sorted(differing))}",
                    remedy="Make the static pods of all controllers alike first.",
                )
