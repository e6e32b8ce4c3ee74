"""The objects of a run that is a Job on a management cluster, and what they say of it. No request is made here."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from upgrader.engine.journal.record import time_of
from upgrader.errors import UsageError
from upgrader.fleet.model import JobSettings
from upgrader.fleet.outcomes import CommandEnd, command_end
from upgrader.ports import Kind, KubeObject

__all__ = [
    "CAMPAIGN",
    "CONTAINER",
    "DIGEST",
    "JOBS",
    "POD_COPIES",
    "POD_KUBECONFIG",
    "TERMINATION",
    "Attempt",
    "began_at",
    "digest_of",
    "end_of",
    "has_ended",
    "job_of",
    "last_line_time",
    "namespace_of",
    "newest_pod",
    "secrets_of",
    "waits_for",
]

JOBS = Kind("batch/v1", "jobs")
CONTAINER = "run"
TERMINATION = "/dev/termination-log"
"""Where the kubelet takes a container's last words from; at most 4,096 bytes."""
DIGEST = "upgrader.io/digest"
"""The annotation by which two Jobs of one attempt are known to be the same."""
CAMPAIGN = "upgrader.io/campaign"
"""The label by which all Jobs of a campaign are followed."""
POD_COPIES, POD_KUBECONFIG = "/upgrader/work/inputs", "/upgrader/kubeconfig/kubeconfig"
_POD_CHUNKS = "/upgrader/inputs"
_HOME, _TEMPORARY, _USER = "/home/upgrader", "/tmp", 1000  # noqa: S108 - a volume of the pod's own
"""Of the image's user."""
_MOST_NAME = 63
_KEPT_SECONDS = 7 * 86400
"""How long a Job that has ended is kept for people; a coordinator that comes later asks the cluster's journal."""
_EXIT_CODES = frozenset({0, 1, 2, 3, 4, 5, 6, 130})
_OURS = {"app.kubernetes.io/managed-by": "upgrader"}


@dataclass(frozen=True)
class Attempt:
    """An attempt at a cluster, by which its objects are named."""

    campaign: str
    cluster: str
    number: int
    namespace: str

    @property
    def name(self) -> str:
        """Of its Job; it tells campaigns apart, and is short enough for the names of its pods."""
        digest = hashlib.sha256(f"{self.campaign}/{self.cluster}".encode()).hexdigest()[:10]
        return f"{self.cluster.replace('.', '-')[:35].rstrip('-')}-{digest}-{self.number}"

    @property
    def labels(self) -> Mapping[str, str]:
        """Of all its objects."""
        return {**_OURS, "upgrader.io/cluster": self.cluster, "upgrader.io/attempt": self.name}

    @property
    def shown(self) -> str:
        """Its Job, as an operator looks for it."""
        return f"Job {self.namespace}/{self.name}"


def namespace_of(settings: JobSettings, cluster: str) -> str:
    """The namespace of a cluster. Raises UsageError for a name of which there can't be one."""
    name = f"{settings.namespace_prefix}{cluster}"
    if "." in name or len(name) > _MOST_NAME:
        raise UsageError(
            f"cluster {cluster} can't have the namespace {name}: a namespace's name has at most {_MOST_NAME} "
            "characters, and no '.'",
            remedy="Rename the cluster in fleet-inventory.yaml; name its folder in `folder`, if that has another name.",
        )
    return name


def secrets_of(attempt: Attempt, chunks: Sequence[bytes], kubeconfig: bytes) -> tuple[KubeObject, ...]:
    """The Secrets that a Job mounts: the kubeconfig, then the chunks of its inputs."""
    inputs = (_secret(attempt, _chunk(attempt, number), "chunk", chunk) for number, chunk in enumerate(chunks))
    return _secret(attempt, f"{attempt.name}-kubeconfig", "kubeconfig", kubeconfig), *inputs


def _chunk(attempt: Attempt, number: int) -> str:
    return f"{attempt.name}-inputs-{number}"


def _secret(attempt: Attempt, name: str, key: str, content: bytes) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "namespace": attempt.namespace, "labels": dict(attempt.labels)},
        "data": {key: base64.b64encode(content).decode()},
    }


def job_of(
    attempt: Attempt, settings: JobSettings, folder: Path, chunks: int, pins: str, arguments: Sequence[str]
) -> KubeObject:
    """A Job that runs `upgrader` with these arguments, whose paths are those in the pod.

    `folder` is the cluster folder, without links. It has the same path in the pod, as its approval contains paths;
    `pins` what the upgrader in the image has to be. Raises UsageError for a folder without a folder above it.
    """
    above = str(PurePosixPath(folder).parent)
    if above == "/":
        raise UsageError(
            f"{folder}, the folder of cluster {attempt.cluster}, is directly below /, where a Job can't mount a volume",
            remedy="Move the fleet's folder into another one.",
        )
    command = ["upgrader", "fleet", "job", "--chunks", _POD_CHUNKS, "--folder", str(folder), "--pins", pins, "--"]
    writable = {"work": str(PurePosixPath(POD_COPIES).parent), "home": _HOME, "tmp": _TEMPORARY, "folder": above}
    if above in (_HOME, _TEMPORARY):
        del writable["folder"]
    mounts: list[dict[str, Any]] = [{"name": name, "mountPath": path} for name, path in writable.items()]
    mounts += [
        {"name": "inputs", "mountPath": _POD_CHUNKS, "readOnly": True},
        {"name": "kubeconfig", "mountPath": str(PurePosixPath(POD_KUBECONFIG).parent), "readOnly": True},
    ]
    sources = [
        {"secret": {"name": _chunk(attempt, number), "items": [{"key": "chunk", "path": f"{number:04}"}]}}
        for number in range(chunks)
    ]
    volumes: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in writable]
    volumes += [
        {"name": "inputs", "projected": {"defaultMode": 0o440, "sources": sources}},
        {"name": "kubeconfig", "secret": {"secretName": f"{attempt.name}-kubeconfig", "defaultMode": 0o440}},
    ]
    container = {
        "name": CONTAINER,
        "image": settings.image,
        "command": [*command, *arguments],
        "env": [{"name": "HOME", "value": _HOME}],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePath": TERMINATION,
        "volumeMounts": mounts,
    }
    pod = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": settings.grace_seconds,
        "volumes": volumes,
    }
    spec = {
        "backoffLimit": 3,
        "podFailurePolicy": {
            "rules": [
                # First: a run that has said how it ended isn't run again, also if its node was drained meanwhile.
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [1, 2, 3, 4, 5]},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "podReplacementPolicy": "Failed",
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
        "template": {"metadata": {"labels": dict(attempt.labels)}, "spec": pod},
    }
    queue = {"kueue.x-k8s.io/queue-name": settings.queue} if settings.queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": attempt.name,
            "namespace": attempt.namespace,
            "labels": {**attempt.labels, CAMPAIGN: attempt.campaign, **queue},
            "annotations": {
                DIGEST: hashlib.sha256(json.dumps([spec, queue], sort_keys=True).encode()).hexdigest(),
            },
        },
        "spec": spec,
    }


def digest_of(job: KubeObject) -> str:
    """What tells whether it is the Job that was meant; "" for one that isn't ours."""
    return str((job["metadata"].get("annotations") or {}).get(DIGEST, ""))


def has_ended(job: KubeObject) -> bool:
    """Whether it has no pod any more that runs, and gets no other."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def began_at(job: KubeObject | None) -> datetime | None:
    """When it began; of one that Kueue has let wait, when that ended. None if it hasn't, or is gone."""
    time = ((job or {}).get("status") or {}).get("startTime")
    return time_of(time) if time else None


def newest_pod(pods: Sequence[KubeObject]) -> KubeObject | None:
    """Of a Job's pods, the one that was made last; None where there is none."""
    return max(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]), default=None)


def end_of(pod: KubeObject) -> CommandEnd | None:
    """How the run in a pod ended: by its last words, else by its exit code. None if it couldn't say."""
    state = _container(pod).get("state") or {}
    ended = state.get("terminated")
    if not ended:
        return None
    code = int(ended["exitCode"])
    if said := command_end(str(ended.get("message") or "")):
        return said if said.exit_code == code else None
    if code not in _EXIT_CODES:  # killed, as when its memory was used up
        return None
    finished = ended.get("finishedAt")
    what = f"its container exited with code {code}, without a reason"
    return CommandEnd(code, what=what, time=time_of(finished) if finished else None)


def waits_for(pod: KubeObject | None) -> str:
    """What keeps a Job's pod from running; "" where it runs."""
    if pod is None:
        return "has no pod yet"
    waiting = (_container(pod).get("state") or {}).get("waiting")
    if waiting:
        return f"pod {pod['metadata']['name']} waits: {waiting.get('reason') or 'for its start'}"
    return "" if pod.get("status", {}).get("phase") != "Pending" else f"pod {pod['metadata']['name']} is pending"


def last_line_time(log: str) -> datetime | None:
    """When the last line of a run's output was written that has a time."""
    for line in reversed(log.splitlines()):
        try:
            return time_of(str(json.loads(line)["time"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return None


def _container(pod: KubeObject) -> Mapping[str, Any]:
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((each for each in found if each["name"] == CONTAINER), {})
