"""Which containers of etcd and kube-apiserver there are, how they ended, and the last lines of their logs."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from typing import Any

from upgrader.contract.checkpoints import CHECKPOINT_OF
from upgrader.onhost.common.bare_grpc import call
from upgrader.onhost.common.kubelet_file import configuration_file
from upgrader.onhost.common.questions import SECONDS, Failed, command, read
from upgrader.onhost.node.cri import ContainerStatus, Runtime, Sandbox
from upgrader.onhost.node.disk_layout import KUBE_APISERVER

_PODS = ("kube-apiserver-", "etcd-")
_TEMPLATES = ("pod-template-hash", "controller-revision-hash")
_MOST = 14
_TAIL_BYTES = 16384
_LINES = 25
_MOST_CHARACTERS = 600
_COMPLAINT = re.compile(r"^[EF]\d{4} .*(?:Error syncing pod|config path|process manifest|[Ee]vict|[Cc]ertificate)")


def socket_path(root: str) -> str:
    """The kubelet's container runtime endpoint."""
    # The second file only if the first doesn't say: systemd is asked where it is, which may not answer.
    named = _named(root + "/var/lib/kubelet/kubeadm-flags.env", r"--container-runtime-endpoint=([^\s\"']+)") or _named(
        root + configuration_file(root), r"(?m)^containerRuntimeEndpoint[ \t]*:[ \t]*[\"']?([^\s\"']+)"
    )
    if named:
        return root + named.replace("unix://", "", 1)
    crio = root + "/run/crio/crio.sock"
    return crio if os.path.exists(crio) else root + "/run/containerd/containerd.sock"


def _named(path: str, pattern: str) -> str:
    """What a file says; "" if it doesn't, or can't be read."""
    try:
        found = re.search(pattern, read(path).decode("utf-8", "replace"))
    except OSError:
        return ""
    return found.group(1) if found else ""


def runtime(path: str, seconds: float = SECONDS) -> Runtime:
    """The runtime behind a socket, and its deadline. Its queries raise Failed, or ValueError on an invalid answer."""
    return Runtime(functools.partial(call, path, seconds=seconds))


def answers(asked: Runtime) -> dict[str, Any]:
    """Whether the runtime answers."""
    try:
        return {"answers": True, "said": asked.version()}
    except (Failed, ValueError) as error:
        return {"answers": False, "said": str(error)}


def containers(asked: Runtime, root: str) -> list[dict[str, Any]]:
    """Those of etcd's and kube-apiserver's pods, the newest first."""
    # Elsewhere there may be those of other clusters, whose control planes are hosted here.
    ours = [pod for pod in asked.sandboxes() if pod.namespace == KUBE_APISERVER.namespace]
    pods = [pod for pod in ours if pod.name.startswith(_PODS)]
    found = sorted(((c, pod) for pod in pods for c in pod.containers), key=lambda at: at[0].created_at, reverse=True)
    seen = []
    for container, pod in found[:_MOST]:
        with contextlib.suppress(Failed, ValueError):  # removed in the meantime, or its answer makes no sense
            seen.append(_status(asked.status(container.id), pod, root))
    return seen


def _status(status: ContainerStatus, pod: Sandbox, root: str) -> dict[str, Any]:
    return {
        "pod": pod.name,
        "namespace": pod.namespace,
        "standby": CHECKPOINT_OF in pod.labels,
        "static": pod.from_file,
        "uid": pod.labels.get("io.kubernetes.pod.uid", ""),
        "template": next((pod.labels[name] for name in _TEMPLATES if pod.labels.get(name)), ""),
        "sandbox_ready": pod.ready,
        "name": status.name,
        "attempt": status.attempt,
        "state": status.state,
        "image": status.image,
        "created": status.created_at / 1e9,
        "started": status.started_at / 1e9 or None,
        "finished": status.finished_at / 1e9 or None,
        "exit_code": status.exit_code if status.state == "exited" else None,
        "reason": status.reason,
        "message": status.message,
        "log": _tail(root + status.log),
    }


def _tail(path: str) -> list[str]:
    return [line[:_MOST_CHARACTERS] for line in logged(path, _TAIL_BYTES) if line.strip()][-_LINES:]


def logged(path: str, last_bytes: int) -> list[str]:
    """The lines in the last so many bytes of a CRI log file, without its own time, stream and tag."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - last_bytes))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [part[3] for line in lines if len(part := line.split(" ", 3)) == 4]


def complaints() -> list[str]:
    """The kubelet's newest errors that have to do with the control plane, each once."""
    lines = command(
        "journalctl", "-u", "kubelet", "--since", "-10min", "-n", "400", "-o", "cat", "--no-pager", "-q"
    ).splitlines()
    newest: dict[str, str] = {}
    for line in lines:
        if _COMPLAINT.search(line):
            # The same words at another time are the same complaint; what comes last is at the end.
            key = line.split("]", 1)[-1]
            newest.pop(key, None)
            newest[key] = line[:_MOST_CHARACTERS]
    return list(newest.values())[-6:]
