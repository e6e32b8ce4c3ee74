"""A static pod of etcd's own image: the tools of exactly this version, whether etcd runs or not, and without an API.

Its first containers are etcd's tools, one after the other; its last one is a scratch etcd that serves the restored data
at a Unix socket in a folder that only root enters. It is bounded: in memory, in processor time, and in its life.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from upgrader.steps.backup.etcd_member import EtcdMember

__all__ = ["POD_PREFIX", "SCRATCH", "SNAPSHOT", "STATUS", "UNIT_PREFIX", "ReplacedData", "etcd_pod"]

POD_PREFIX = "upgrader-etcd-"
"""What the names of all these pods begin with."""

UNIT_PREFIX = "upgrader-rehearsal-"
"""What the names of all systemd units begin with that work on what such a pod has restored."""

SNAPSHOT, STATUS, SCRATCH = "snapshot.db", "status", "scratch"

_PKI = "/etc/kubernetes/pki/etcd"
_NOWHERE = "http://127.0.0.1:1"
"""What the scratch etcd advertises: it has no peers, and its clients know the socket."""

_LIFE_SECONDS = 1800
_ROOM_BYTES = 512 << 20


@dataclass(frozen=True)
class ReplacedData:
    """The data that a member gets: made beside the scratch etcd's, and not served by it."""

    folder: str
    """Below the work folder."""
    initial_cluster: str
    bump_revision: int
    """How far its revision is ahead of the backup's."""


def etcd_pod(
    member: EtcdMember, name: str, *, snapshot_bytes: int, take: bool, replaced: ReplacedData | None = None
) -> bytes:
    """The manifest. `take`: the snapshot is taken of the running member, rather than found in the work folder."""
    tools = [_container(member, STATUS, "etcdutl", "snapshot", "status", f"/work/{SNAPSHOT}", "--write-out=json")]
    if take:
        tools.insert(0, _snapshot(member))
    tools.append(_restore(member, SCRATCH, "default", _NOWHERE, f"default={_NOWHERE}"))
    if replaced:
        more = ["--bump-revision", str(replaced.bump_revision), "--mark-compacted"]
        if member.cluster_token:
            more += ["--initial-cluster-token", member.cluster_token]
        where = replaced.folder
        tools.append(_restore(member, where, member.name, member.peer_url, replaced.initial_cluster, *more))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "labels": {"app.kubernetes.io/managed-by": "upgrader", "app.kubernetes.io/name": "upgrader-etcd"},
        },
        "spec": {
            # etcd listens for its clients at the host's own addresses.
            "hostNetwork": True,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _LIFE_SECONDS,
            "terminationGracePeriodSeconds": 1,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": tools,
            "containers": [_scratch(member, snapshot_bytes)],
            "volumes": [_volume("work", member.work), _volume("pki", _PKI)],
        },
    }
    return json.dumps(pod, indent=1).encode()


def _snapshot(member: EtcdMember) -> dict[str, Any]:
    tls = ["--cacert=/pki/ca.crt", "--cert=/pki/healthcheck-client.crt", "--key=/pki/healthcheck-client.key"]
    words = ["etcdctl", f"--endpoints={member.client_url}", *tls, "snapshot", "save", f"/work/{SNAPSHOT}"]
    made = _container(member, "snapshot", *words)
    made["volumeMounts"].append({"name": "pki", "mountPath": "/pki", "readOnly": True})
    return made


def _restore(member: EtcdMember, folder: str, name: str, peer_url: str, cluster: str, *more: str) -> dict[str, Any]:
    words = ["--name", name, "--initial-advertise-peer-urls", peer_url, "--initial-cluster", cluster]
    return _container(
        member,
        folder,
        "etcdutl",
        "snapshot",
        "restore",
        f"/work/{SNAPSHOT}",
        f"--data-dir=/work/{folder}",
        *words,
        *more,
    )


def _scratch(member: EtcdMember, snapshot_bytes: int) -> dict[str, Any]:
    words = [
        "etcd",
        f"--data-dir=/work/{SCRATCH}",
        "--listen-client-urls=unix:///work/etcd.sock",
        "--listen-peer-urls=unix:///work/peer.sock",
        f"--advertise-client-urls={_NOWHERE}",
        f"--initial-advertise-peer-urls={_NOWHERE}",
        f"--initial-cluster=default={_NOWHERE}",
        # What it has is thrown away, or used before the next boot. The member's own writes must not wait for it.
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={max(8 << 30, 2 * snapshot_bytes)}",
        "--log-level=warn",
    ]
    mebibytes = math.ceil((2 * snapshot_bytes + _ROOM_BYTES) / (1 << 20))
    limits = {"cpu": "1", "memory": f"{mebibytes}Mi"}
    # Without requests the limits would be requested, and a kubelet refuses a pod that doesn't fit beside the others.
    requests = {"cpu": "10m", "memory": "32Mi"}
    return {**_container(member, "etcd", *words), "resources": {"limits": limits, "requests": requests}}


def _container(member: EtcdMember, name: str, *words: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": member.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(words),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
    }


def _volume(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": "Directory"}}
