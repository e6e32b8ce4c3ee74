"""Which containers of etcd and kube-apiserver there are, how they ended, and what they said last."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

from upgrader.node.names import CHECKPOINT_OF
from upgrader.recover.onhost.cri import call, fields, one, raw, string, text, whole
from upgrader.recover.onhost.probe import Failed, command, read

_RUNTIME = "/runtime.v1.RuntimeService/"
_IMAGES = "/runtime.v1.ImageService/"
_STATES = {0: "created", 1: "running", 2: "exited", 3: "unknown"}
_PODS = ("kube-apiserver-", "etcd-")
_MOST = 14
_TAIL_BYTES = 16384
_LINES = 25
_MOST_CHARACTERS = 600
_COMPLAINT = re.compile(r"^[EF]\d{4} .*(?:Error syncing pod|config path|process manifest|[Ee]vict|[Cc]ertificate)")


def socket_path(root: str) -> str:
    """Where the kubelet finds its container runtime."""
    for path, pattern in (
        ("/var/lib/kubelet/kubeadm-flags.env", r"--container-runtime-endpoint=([^\s\"']+)"),
        ("/var/lib/kubelet/config.yaml", r"(?m)^containerRuntimeEndpoint:\s*[\"']?([^\s\"']+)"),
    ):
        try:
            found = re.search(pattern, read(root + path).decode("utf-8", "replace"))
        except OSError:
            continue
        if found and found.group(1):
            return root + found.group(1).replace("unix://", "", 1)
    crio = root + "/run/crio/crio.sock"
    return crio if os.path.exists(crio) else root + "/run/containerd/containerd.sock"


def runtime(path: str) -> dict[str, Any]:
    """Whether the runtime answers."""
    try:
        version = one(call(path, _RUNTIME + "Version"))
    except Failed as error:
        return {"answers": False, "said": str(error)}
    return {"answers": True, "said": f"{text(version.get(2, b''))} {text(version.get(3, b''))}"}


def containers(path: str, root: str) -> list[dict[str, Any]]:
    """Those of etcd's and kube-apiserver's pods, the newest first."""
    sandboxes = {}
    for number, value in fields(call(path, _RUNTIME + "ListPodSandbox")):
        if number == 1:
            sandbox = _sandbox(raw(value))
            sandboxes[sandbox["id"]] = sandbox
    found = []
    for number, value in fields(call(path, _RUNTIME + "ListContainers")):
        container = one(raw(value)) if number == 1 else {}
        pod = sandboxes.get(text(container.get(2, b"")))
        if pod is not None and pod["name"].startswith(_PODS):
            found.append((whole(container.get(7, 0)), text(container.get(1, b"")), pod))
    found.sort(key=lambda entry: entry[0], reverse=True)
    seen = []
    for _, identity, pod in found[:_MOST]:
        with contextlib.suppress(Failed):  # it was removed in the meantime
            seen.append(_status(path, identity, pod, root))
    return seen


def _sandbox(data: bytes) -> dict[str, Any]:
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    for number, value in fields(data):
        if number in (5, 6):
            entry = one(raw(value))
            (labels if number == 5 else notes)[text(entry.get(1, b""))] = text(entry.get(2, b""))
    found = one(data)
    metadata = one(raw(found.get(2, b"")))
    return {
        "id": text(found.get(1, b"")),
        "name": text(metadata.get(1, b"")),
        "namespace": text(metadata.get(3, b"")),
        "ready": whole(found.get(3, 0)) == 0,
        "copy": CHECKPOINT_OF in labels,
        "static": notes.get("kubernetes.io/config.source") == "file",
    }


def _status(path: str, identity: str, pod: dict[str, Any], root: str) -> dict[str, Any]:
    status = one(raw(one(call(path, _RUNTIME + "ContainerStatus", string(1, identity))).get(1, b"")))
    metadata = one(raw(status.get(2, b"")))
    state = _STATES.get(whole(status.get(3, 0)), "unknown")
    return {
        "pod": pod["name"],
        "namespace": pod["namespace"],
        "copy": pod["copy"],
        "static": pod["static"],
        "sandbox_ready": pod["ready"],
        "name": text(metadata.get(1, b"")),
        "attempt": whole(metadata.get(2, 0)),
        "state": state,
        "image": text(one(raw(status.get(8, b""))).get(1, b"")),
        "created": whole(status.get(4, 0)) / 1e9,
        "started": whole(status.get(5, 0)) / 1e9 or None,
        "finished": whole(status.get(6, 0)) / 1e9 or None,
        "exit_code": whole(status.get(7, 0)) if state == "exited" else None,
        "reason": text(status.get(10, b"")),
        "message": text(status.get(11, b"")),
        "log": _tail(root + text(status.get(15, b""))),
    }


def _tail(path: str) -> list[str]:
    """The last lines of a CRI log file, without its own time, stream and tag."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    parts = [line.split(" ", 3) for line in lines]
    return [part[3][:_MOST_CHARACTERS] for part in parts if len(part) == 4 and part[3].strip()][-_LINES:]


def image(path: str, reference: str) -> dict[str, Any]:
    """What the runtime knows under an image's name or digest: its ID and repository digests; empty when not there."""
    spec = string(1, string(1, reference))
    answer = one(call(path, _IMAGES + "ImageStatus", spec))
    if 1 not in answer:
        return {}
    found: dict[str, Any] = {"id": "", "digests": []}
    for number, value in fields(raw(answer[1])):
        if number == 1:
            found["id"] = text(value)
        elif number == 3:
            found["digests"].append(text(value))
    return found


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
