"""The images of pods that need a checkpoint are pulled with the nodes' credentials, not with Secrets of the pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.contract.checkpoints import ASKS
from upgrader.contract.flags import values
from upgrader.gates.kubernetes_kinds import SECRETS, SERVICE_ACCOUNTS
from upgrader.model.finding import Finding
from upgrader.model.images import images_in, images_of
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.registry_logins import has_login_for
from upgrader.model.version import KubernetesVersion
from upgrader.ports import KubeObject
from upgrader.preflight.context import DAEMONSETS, MIRROR, SYSTEM, PreflightContext
from upgrader.steps.images.planned_images import PlannedPods, planned_pods
from upgrader.steps.plan import planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["check_pull_secrets"]

_CHECKPOINTER = "pod-checkpointer"
_RECORDS_SINCE = KubernetesVersion(1, 35, 0)
"""The first kubelet that records with which credentials it pulled an image, unless a feature gate says otherwise."""


@dataclass(frozen=True)
class _Scope:
    """What the pod-checkpointer's arguments say of whose pods may have a checkpoint."""

    namespaces: tuple[str, ...]
    workloads: tuple[str, ...]

    def includes(self, namespace: str, name: str) -> bool:
        if (namespace, name) == (SYSTEM, _CHECKPOINTER):
            return True
        return namespace in self.namespaces and (not self.workloads or f"{namespace}/{name}" in self.workloads)


def check_pull_secrets(context: PreflightContext) -> Iterator[Finding]:
    """The pod-checkpointer refuses an image that the kubelet has pulled with a pod's Secret, as no static pod can refer
    to it: the step would fail at the gate of checkpoints, and be rolled back.

    A Secret without a login for the image's registry does no harm, nor does any with an image that a static pod uses.
    """
    if context.plan is None or not _kubelets_keep_records(context):
        return
    objects = {name: item for step in planned_of(context.plan, PlannedRelease) for name, item in _named(step)}
    asking = [pods for pods in planned_pods(context.plan) if _asks(objects.get(pods.workload, {}))]
    scope = _scope(context) if asking else None
    if scope is None:
        return
    usable = _images_of_static_pods(context)
    for pods in asking:
        if not scope.includes(pods.namespace, pods.workload.rpartition("/")[2]):
            continue
        item = objects[pods.workload]
        known = usable | _running_images(context, pods)
        images = [image.name for image in pods.images if image.name not in known]
        own = bool(_names(item["spec"]["template"]["spec"]))
        for secret in pods.pull_secrets or _of_account(context, pods):
            found = objects.get(f"Secret {pods.namespace}/{secret}") or context.kube.get(
                SECRETS, secret, pods.namespace
            )
            if pulled := [image for image in images if found and has_login_for(found, image)]:
                yield _finding(pods, secret, pulled, own=own)
                break


def _finding(pods: PlannedPods, secret: str, images: list[str], *, own: bool) -> Finding:
    account = f"ServiceAccount {pods.namespace}/{pods.service_account}"
    return Finding(
        "pull-secrets.no-checkpoint",
        "error",
        f"{pods.workload}: Secret {pods.namespace}/{secret} would pull its images, so its pods would get no checkpoint",
        f"imagePullSecrets of {'its pods' if own else account} names this Secret, which has a login for "
        f"{', '.join(images)}. Since v1.35, the kubelet lets only pods with the credentials that it used for the pull "
        "use the image. A static pod can't refer to a Secret, so no checkpoint could start: the run would be rolled "
        "back.",
        "Give the nodes credentials for the registry instead (/var/lib/kubelet/config.json or a credential provider of "
        "the kubelet, or the container runtime's configuration), and remove imagePullSecrets from "
        f"{f'the values of release {pods.step}' if own else account}. If the images were loaded into all controllers "
        "without a pull, make this finding a warning (checks.severities in upgrader.yaml).",
    )


def _scope(context: PreflightContext) -> _Scope | None:
    """By the planned pod-checkpointer, or the one that runs; None: there is none, or it allows any image."""
    live = None if context.planned(_CHECKPOINTER) else context.kube.get(DAEMONSETS, _CHECKPOINTER, SYSTEM)
    found = [live] if live else objects_in(context.planned(_CHECKPOINTER)).values()
    for item in found:
        if item["metadata"].get("name") == _CHECKPOINTER and isinstance(item.get("spec"), Mapping):
            containers = (((item["spec"].get("template") or {}).get("spec")) or {}).get("containers") or ()
            given = values(word for each in containers for word in each.get("args") or ())
            if "any-image" not in given:
                return _Scope(given.get("namespace", (SYSTEM,)), given.get("workload", ()))
    return None


def _kubelets_keep_records(context: PreflightContext) -> bool:
    """Those of the controllers; one whose version isn't known does."""
    kubelets = (context.observed.kubelets.get(name) for name in context.controllers)
    return any(version is None or version >= _RECORDS_SINCE for version in kubelets)


def _named(step: PlannedRelease) -> Iterator[tuple[str, Manifest]]:
    """With its namespace, whether the chart says it or not."""
    for item in objects_in(step.after).values():
        meta = item.get("metadata") or {}
        yield f"{item.get('kind')} {meta.get('namespace') or step.spec.namespace}/{meta.get('name')}", item


def _asks(item: Manifest) -> bool:
    template: Mapping[str, Any] = (item.get("spec") or {}).get("template") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(ASKS)) == "true"


def _names(found: KubeObject) -> tuple[str, ...]:
    return tuple(str(each["name"]) for each in found.get("imagePullSecrets") or () if each.get("name"))


def _of_account(context: PreflightContext, pods: PlannedPods) -> tuple[str, ...]:
    """The API gives pods that name no Secret those of their ServiceAccount."""
    return _names(context.kube.get(SERVICE_ACCOUNTS, pods.service_account, pods.namespace) or {})


def _running_images(context: PreflightContext, pods: PlannedPods) -> frozenset[str]:
    """Those of the workload as it is, which no kubelet pulls again: whether its pods have checkpoints is known."""
    before = images_in(context.installed(pods.step))
    running = {image for (workload, _), image in before.items() if workload == pods.workload}
    return frozenset(each.name for each in pods.images if each.name in running and each.policy != "Always")


def _images_of_static_pods(context: PreflightContext) -> frozenset[str]:
    """Those that a static pod uses on each controller: the others can use them, too."""
    found = [
        {
            image
            for pod in context.pods_on(host.name)
            if MIRROR in (pod["metadata"].get("annotations") or {})
            for image in images_of(pod["spec"]).values()
        }
        for host in context.cluster.controllers
    ]
    return frozenset(set.intersection(*found)) if found else frozenset()
