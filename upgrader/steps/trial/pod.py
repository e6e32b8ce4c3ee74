"""The pod in which a program is tried: its planned image, flags and files, and nothing to do harm with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upgrader.ports import KubeObject
from upgrader.steps.trial.files import mounts_and_volumes, named_by_env, renamed, unwritten_flags
from upgrader.steps.trial.harmless import harmless
from upgrader.steps.trial.programs import FileObject, PlannedProgram
from upgrader.steps.trial.reading import CONTAINER

__all__ = ["LABELS", "TrialPod", "manifest", "metadata"]

LABELS = {"app.kubernetes.io/name": "upgrader-trial", "app.kubernetes.io/managed-by": "upgrader"}

_NO_MESH = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
_RESOURCES = {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
"""Both, as a quota may demand them. kube-apiserver, the largest, has 110 MB by the time it ends."""
_USER_OF_POD = ("runAsUser", "runAsGroup", "runAsNonRoot", "fsGroup", "supplementalGroups", "seLinuxOptions")
_USER = ("runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions")
"""Whether a program may read a file depends on these."""
_READING = "DAC_OVERRIDE"
"""By this capability, which containers have by default, root reads what others own, such as files of a user `etcd`."""
_ALIKE = frozenset({_READING, "DAC_READ_SEARCH", "ALL"})
_OF_POD = ("imagePullSecrets", "hostAliases", "dnsPolicy", "dnsConfig", "runtimeClassName")


@dataclass(frozen=True)
class TrialPod:
    """One program on one node."""

    name: str
    node: str
    program: PlannedProgram


def manifest(
    pod: TrialPod,
    copies: Mapping[FileObject, str],
    *,
    seconds: float,
    pull_secrets: Sequence[Mapping[str, Any]] = (),
) -> KubeObject:
    """The pod; its files are the copies. The kubelet itself ends it after `seconds`.

    `pull_secrets` are those of the planned pod's ServiceAccount, which this one isn't.

    It has a network of its own, no token, no capability but to read, no writable file of the node, and no Service's
    labels.
    """
    command = pod.program.command
    mounts, volumes = mounts_and_volumes(pod.program)
    container = {
        "name": CONTAINER,
        "image": command.found.get("image"),
        **({"imagePullPolicy": policy} if (policy := command.found.get("imagePullPolicy")) else {}),
        **_started(pod.program),
        **named_by_env(pod.program),
        "volumeMounts": mounts,
        "resources": _RESOURCES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            **_some(command.found.get("securityContext"), _USER),
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": _capabilities(command.found.get("securityContext") or {}),
        },
    }
    spec = {
        **_some(command.pod, _OF_POD),
        **(
            {"imagePullSecrets": list(pull_secrets)} if pull_secrets and not command.pod.get("imagePullSecrets") else {}
        ),
        "nodeName": pod.node,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": max(1, int(seconds)),
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "seccompProfile": {"type": "RuntimeDefault"},
            **_some(command.pod.get("securityContext"), _USER_OF_POD),
        },
        "containers": [container],
        "volumes": volumes,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(pod.name), "spec": renamed(spec, copies)}


def metadata(name: str) -> dict[str, Any]:
    """Of everything that a trial creates, by which it is found again."""
    return {"name": name, "labels": {**LABELS, **_NO_MESH}, "annotations": _NO_MESH}


def _started(program: PlannedProgram) -> dict[str, Any]:
    """The program with its own arguments, without a shell that starts it otherwise."""
    command = program.command
    given = list(command.found.get("command") or ())
    arguments = harmless(command.component, command.arguments or (), unwritten_flags(program))
    if not given:
        return {"args": list(arguments)}
    # `PROGRAM FLAG…`, or a shell's command line that ends with the component's name.
    started = given[0] if given[0].rpartition("/")[2] == command.component else command.component
    return {"command": [started], "args": list(arguments)}


def _capabilities(planned: Mapping[str, Any]) -> dict[str, Any]:
    """None, but to read what the program will read: all that it could write to is mounted read-only."""
    own = planned.get("capabilities") or {}
    added, dropped = (
        {str(each).upper().removeprefix("CAP_") for each in own.get(key) or ()} for key in ("add", "drop")
    )
    reads = planned.get("privileged") or added & _ALIKE or not dropped & {_READING, "ALL"}
    return {"drop": ["ALL"], **({"add": [_READING]} if reads else {})}


def _some(found: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: found[key] for key in keys if key in (found or {})}
