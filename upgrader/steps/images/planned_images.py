"""The images that the pods of a plan's releases, and etcd's members, need, and what their kubelets pull them with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.model.images import pod_spec_of
from upgrader.model.manifest import Manifest, objects_in
from upgrader.steps.etcd.plan import PlannedEtcd
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["PlannedPods", "WantedImage", "planned_pods"]


@dataclass(frozen=True)
class WantedImage:
    """An image, and when a kubelet pulls it (`imagePullPolicy`; "" is the API's default)."""

    name: str
    policy: str = ""


@dataclass(frozen=True)
class PlannedPods:
    """The pods of one workload, as far as pulling their images is concerned."""

    workload: str
    """`DaemonSet kube-system/kube-proxy`"""
    namespace: str
    service_account: str
    pull_secrets: tuple[str, ...]
    """Those that the pod or its planned ServiceAccount names; the API adds those of an existing ServiceAccount."""
    host_network: bool
    runtime_class: str
    """containerd may keep the images of each runtime class apart."""
    images: tuple[WantedImage, ...]
    spec: Mapping[str, Any]
    """The pods' spec, which says on which nodes they may run."""
    own_secrets: tuple[str, ...] = ()
    """Those of `pull_secrets` that the plan itself brings: at first they may not be there."""
    step: str = ""
    """The name of the step that starts them; "" for etcd's members."""


def planned_pods(plan: Plan) -> tuple[PlannedPods, ...]:
    """The pods of each workload that a run installs or changes, in the plan's order; before them etcd's members.

    One whose spec stays as it is keeps its pods, and starts none: whatever its image is by now, this run needs it
    nowhere.
    """
    changed = [step for step in planned_of(plan, PlannedRelease) if step.action != "unchanged"]
    objects = [
        (step, item, before.get(key, {}).get("spec") == item.get("spec"))
        for step in changed
        for before in (objects_in(step.before),)
        for key, item in objects_in(step.after).items()
    ]
    brought = [(_place(item, step.spec.namespace), item) for step, item, _ in objects]
    accounts = {place: _secrets(item) for place, item in brought if item["kind"] == "ServiceAccount"}
    secrets = {place for place, item in brought if item["kind"] == "Secret"}
    members = (_members(step) for step in planned_of(plan, PlannedEtcd) if step.members)
    return (*members, *_pods([(step, item) for step, item, stays in objects if not stays], accounts, secrets))


def _members(step: PlannedEtcd) -> PlannedPods:
    """Static pods have no credentials: the kubelet pulls for them with those of the node alone."""
    expression = {"key": "metadata.name", "operator": "In", "values": [member.node for member in step.members]}
    required = {"nodeSelectorTerms": [{"matchFields": [expression]}]}
    spec = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "tolerations": [{"operator": "Exists"}],
    }
    image = WantedImage(step.settings.image, "IfNotPresent")
    return PlannedPods("static pods etcd", "kube-system", "default", (), True, "", (image,), spec)


def _pods(
    objects: list[tuple[PlannedRelease, Manifest]],
    accounts: Mapping[tuple[str, str], tuple[str, ...]],
    secrets: set[tuple[str, str]],
) -> Iterator[PlannedPods]:
    for step, item in objects:
        if (item.get("spec") or {}).get("replicas") == 0:
            continue  # it starts no pod; its image is pulled when it is scaled up
        spec = pod_spec_of(item)
        containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        images = dict.fromkeys(
            WantedImage(str(each["image"]), str(each.get("imagePullPolicy") or ""))
            for each in containers
            if each.get("image")
        )
        if not images:
            continue
        namespace, name = _place(item, step.spec.namespace)
        account = str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")
        pull = _secrets(spec) or accounts.get((namespace, account), ())
        yield PlannedPods(
            f"{item['kind']} {namespace}/{name}",
            namespace,
            account,
            pull,
            bool(spec.get("hostNetwork")),
            str(spec.get("runtimeClassName") or ""),
            tuple(images),
            spec,
            tuple(secret for secret in pull if (namespace, secret) in secrets),
            step.name,
        )


def _place(item: Manifest, default: str) -> tuple[str, str]:
    meta = item.get("metadata") or {}
    return str(meta.get("namespace") or default), str(meta.get("name"))


def _secrets(item: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(each["name"]) for each in item.get("imagePullSecrets") or () if each.get("name"))
