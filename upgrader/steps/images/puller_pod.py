"""A short-lived pod that has a node's kubelet pull images, and what its status says of them.

The kubelet pulls them as for the workload itself: by way of its mirrors, with its credential providers, and with the
pod's own secrets. Nothing of an image is run: its command does not exist, so that an image without a shell does as
well. The container then fails to start, which it can only once its image is there.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from upgrader.ports import KubeObject
from upgrader.steps.images.planned_images import WantedImage

__all__ = ["LABELS", "ImageStatus", "PullerPod", "has_no_place", "image_statuses", "manifest", "new_name", "refusal"]

LABELS = {"app.kubernetes.io/name": "upgrader-image-puller", "app.kubernetes.io/managed-by": "upgrader"}

_NO_MESH = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
"""As labels and as annotations: which of them a service mesh reads differs. What it adds would have to start first."""

_COMMAND = "/upgrader-only-pulls-this-image"

_FAILING = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}
)
"""The kubelet tries again after these."""
_FAILED = frozenset({"ErrImageNeverPull", "InvalidImageName"})
_AFTER = frozenset(
    {
        "CreateContainerConfigError",
        "PreCreateHookError",
        "CreateContainerError",
        "PreStartHookError",
        "RunContainerError",
        "PostStartHookError",
        "CrashLoopBackOff",
    }
)
"""The kubelet gets as far as these only with the image (`startContainer` in its source)."""
_NO_PLACE = frozenset({"NodeAffinity", "NodeShutdown", "Preempting", "Terminated"})
"""Why a kubelet refuses a pod, or ends it, whatever its images are; beside `OutOfcpu`, `OutOfpods` and so on."""
_NEVER_SEEN = "ContainerStatusUnknown"
"""How the kubelet ends containers of a pod that it gives up, also those that it never created."""

_RESOURCES = {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}
"""Both, as a quota may demand them."""
_UNPRIVILEGED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""What the strictest level of Pod Security demands of a container."""


@dataclass(frozen=True)
class PullerPod:
    """What one pod pulls."""

    name: str
    node: str
    namespace: str
    service_account: str
    pull_secrets: tuple[str, ...]
    host_network: bool
    runtime_class: str
    images: tuple[WantedImage, ...]


@dataclass(frozen=True)
class ImageStatus:
    """What a kubelet says of one image."""

    image: str
    state: Literal["pulling", "failing", "failed", "there"]
    message: str = ""
    image_id: str = ""
    """As the container runtime names it: `REPOSITORY@sha256:…`, or the image's own ID; "" if it doesn't report one."""


def new_name() -> str:
    """A name that no other pod has."""
    return f"upgrader-image-puller-{secrets.token_hex(4)}"


def manifest(pod: PullerPod, *, seconds: float) -> KubeObject:
    """The pod; the kubelet itself ends it after `seconds`."""
    spec: dict[str, Any] = {
        "nodeName": pod.node,
        "serviceAccountName": pod.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "imagePullSecrets": [{"name": name} for name in pod.pull_secrets],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": max(1, int(seconds)),
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(number, image) for number, image in enumerate(pod.images)],
    }
    if pod.host_network:
        spec["hostNetwork"] = True
    if pod.runtime_class:
        spec["runtimeClassName"] = pod.runtime_class
    meta = {"name": pod.name, "namespace": pod.namespace, "labels": {**LABELS, **_NO_MESH}, "annotations": _NO_MESH}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def refusal(found: KubeObject) -> str:
    """Why the kubelet refused the pod, or ended it, before it had all images; "" where it did not."""
    status = found.get("status") or {}
    if status.get("phase") != "Failed" or not status.get("reason"):
        return ""
    return f"{status['reason']}: {status.get('message') or 'the kubelet gave no reason'}"


def has_no_place(found: KubeObject) -> bool:
    """Whether a refusal is about the node alone: it is full, shuts down, or isn't for pods of this kind.

    The workload's own pod gets its place from the older one that it replaces, or by its priority; this one has neither.
    """
    reason = str((found.get("status") or {}).get("reason"))
    return reason.startswith("OutOf") or reason in _NO_PLACE


def image_statuses(pod: PullerPod, found: KubeObject) -> Iterator[ImageStatus]:
    """What the pod's status says of each image."""
    known = {item["name"]: item for item in (found.get("status") or {}).get("containerStatuses") or ()}
    for number, image in enumerate(pod.images):
        yield _status(image.name, known.get(_name(number)) or {})


def _status(image: str, container: Mapping[str, Any]) -> ImageStatus:
    state = container.get("state") or {}
    terminated = state.get("terminated") or {}
    if state.get("running") or (terminated and terminated.get("reason") != _NEVER_SEEN):
        return ImageStatus(image, "there", image_id=str(container.get("imageID") or ""))
    waiting = state.get("waiting") or {}
    reason = str(waiting.get("reason") or "")
    message = ": ".join(filter(None, (reason, waiting.get("message"))))
    if reason in _FAILED:
        return ImageStatus(image, "failed", message)
    if reason in _FAILING:
        return ImageStatus(image, "failing", message)
    if reason in _AFTER:
        return ImageStatus(image, "there", image_id=str(container.get("imageID") or ""))
    return ImageStatus(image, "pulling", message)


def _container(number: int, image: WantedImage) -> dict[str, Any]:
    policy = {"imagePullPolicy": image.policy} if image.policy else {}
    return {
        "name": _name(number),
        "image": image.name,
        **policy,
        "command": [_COMMAND],
        "resources": _RESOURCES,
        "securityContext": _UNPRIVILEGED,
    }


def _name(number: int) -> str:
    return f"image-{number}"
