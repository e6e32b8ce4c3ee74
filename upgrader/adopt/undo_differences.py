"""What an undo of the adoption would lose, as kubeadm's retired manifests are older than the releases. Pure.

A release may have got flags since: encryption at rest, a second issuer of tokens, a feature. Where kubeadm's manifest
lacks them, its kube-apiserver can't read what the release's has written. They are named, never dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from upgrader.adopt.facts import ADOPTED, COMPONENTS, ControllerFacts, StaticPod, flags_of
from upgrader.adopt.values import CA_FOR_ALL, HANDED_OVER, defaults_kept
from upgrader.contract.variables import seen_variables
from upgrader.errors import Blocked
from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import emulated_by, minor_text
from upgrader.model.manifest import objects_in
from upgrader.onhost.certificates.new_signer import SIGNING

__all__ = ["Released", "check_undo", "images_to_restore", "released_in"]

_CHARTS_OWN = HANDED_OVER | {
    "goaway-chance",
    "library-path",
    "shutdown-send-retry-after",
    "shutdown-watch-termination-grace-period",
}
"""What the charts add to make a pod replaceable; `library-path` is of the shell that starts kube-apiserver."""
_CHARTS_TOKENS = ("/run/kube-apiserver/tokens.csv",)


_NONE = (None, ("",))
"""A flag that isn't there, or is empty."""


@dataclass(frozen=True)
class Released:
    """A component as its release has it: the image, the flags by name without dashes, the plain variables."""

    image: str
    flags: Mapping[str, tuple[str, ...]]
    env: Mapping[str, str]


def released_in(manifests: Iterable[str]) -> Mapping[str, Released]:
    """The components whose Deployments these manifests of releases have."""
    found: dict[str, Released] = {}
    for manifest in manifests:
        for item in objects_in(manifest).values():
            name = item["metadata"]["name"]
            if item["kind"] == "Deployment" and name in COMPONENTS:
                containers = item["spec"]["template"]["spec"]["containers"]
                container = next((each for each in containers if each["name"] == name), containers[0])
                found[name] = Released(str(container["image"]), flags_of(container), seen_variables(container))
    return found


def images_to_restore(released: Mapping[str, Released]) -> Mapping[str, str]:
    """Component → the image that runs now: a manifest that was retired long ago names an older one, by tag or digest,
    and an older program must never read what a newer one has written.
    """
    return {name: component.image for name, component in released.items()}


def check_undo(
    controllers: Collection[ControllerFacts],
    released: Mapping[str, Released],
    added: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> None:
    """Raises Blocked where the retired manifests are not what runs. `added`: by component, the flags that came with
    the adoption.
    """
    for name, each in released.items():
        minor = emulated_by(_words(each.flags))
        if minor is not None and _emulated(controllers, name) != {minor}:
            raise Blocked(
                f"{name} emulates {minor_text(minor)}, but kubeadm's manifest does not: an undo would end the "
                "emulation permanently; nothing was changed",
                remedy="First end the emulation (upgrader finalize), or return to that minor (upgrader rollback).",
            )
    manager = released.get("kube-controller-manager")
    if manager and manager.flags.get("cluster-signing-cert-file", ("",))[-1].endswith(f"/{SIGNING}"):
        raise Blocked(
            "a rotation of the cluster's CA is incomplete, and kubeadm's manifests don't reflect it; nothing was "
            "changed",
            remedy="Complete or cancel it first: upgrader certs rotate-ca show",
        )
    lost = [
        f"{controller.host.name}: {difference}"
        for controller in controllers
        for component, pod in controller.adopted.items()
        if component not in controller.active  # that one joined again, and stays
        for difference in _differences(pod, released.get(component), added.get(component, {}))
    ]
    if lost:
        raise Blocked(
            "\n".join(("kubeadm's retired manifests lack what the releases have; nothing was changed:", *lost)),
            remedy=f"Add the settings that must stay to {ADOPTED}/COMPONENT.yaml on each controller, with the volumes "
            "that they need; or remove them from the values, and run `upgrader run`. Then run this command again.",
        )


def _emulated(controllers: Iterable[ControllerFacts], component: str) -> set[Minor | None]:
    """The minors that a component's retired manifests emulate."""
    retired = (each.adopted.get(component) for each in controllers if component not in each.active)
    return {emulated_by(_words(pod.flags)) for pod in retired if pod}


def _differences(pod: StaticPod, released: Released | None, added: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    if released is None:
        if "@" in pod.image:
            yield f"{pod.component}: its image is {pod.image}, and the running version is unknown"
        return
    kept_defaults = defaults_kept(pod)
    for name in sorted({*pod.flags, *released.flags} - _CHARTS_OWN):
        before, now = pod.flags.get(name), released.flags.get(name)
        # An empty one that the chart adds is left out: adoption says so where its file isn't there (`added_files.py`).
        own = (added.get(name), kept_defaults.get(name), ("",) if name in added else None)
        came = (before is None and now in own) or (before in _NONE and _adoptions_own(name, now))
        if before != now and not came:
            yield f"{pod.component}: {_flag(name, now)}, in the manifest {_flag(name, before)}"
    kept = seen_variables(pod.container)
    for name in sorted({*kept, *released.env}):
        if kept.get(name) != released.env.get(name):
            yield f"{pod.component}: the variable {name}"


def _adoptions_own(name: str, now: tuple[str, ...] | None) -> bool:
    """Whether a flag that kubeadm's manifest lacks came with the adoption, and is as without it."""
    return (name == "token-auth-file" and now == _CHARTS_TOKENS) or (name in CA_FOR_ALL and now == ("",))


def _flag(name: str, values: tuple[str, ...] | None) -> str:
    return f"no --{name}" if values is None else f"--{name}={','.join(values)}"


def _words(flags: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"--{name}={value}" for name, values in flags.items() for value in values]
