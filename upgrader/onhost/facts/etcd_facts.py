"""etcd on this host: its manifest, its data, its backups, and what it answers, its certificate verified.

It is queried over the JSON gateway to its gRPC interface, which needs only HTTPS.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
from typing import TYPE_CHECKING, Any

from upgrader.contract.flags import manifest_flags
from upgrader.onhost.common.questions import Failed, attempt, read, unknown
from upgrader.onhost.common.tls import context, get, plain
from upgrader.onhost.facts.machine_facts import unit

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]]]
    """A path of the gateway and a request, to HTTP status and answer."""

_MANIFEST = "/etc/kubernetes/manifests/etcd.yaml"
_PKI = "/etc/kubernetes/pki/etcd"
_CLIENTS = "https://127.0.0.1:2379"
_METRICS = "http://127.0.0.1:2381"
"""kubeadm's, on every member."""

_SERVICE = "etcd"
_RUNS = ("active", "activating", "reloading")
"""States of a systemd unit that runs, or is started again and again."""
_NO_MEMBERS = "etcd lists its members only while it has quorum"
_FLAGS = ("name", "initial-advertise-peer-urls", "initial-cluster", "quota-backend-bytes")
"""Settings for restoring a backup, and the database's quota."""
_REMOVED = ("enable-v2", "experimental-", "proxy")
"""Prefixes of flags that newer etcd versions have removed."""


def facts(root: str) -> dict[str, Any]:
    """etcd on this host: its manifest, its data, its backups, and the service of the host that is etcd."""
    flags = _flags(root)
    data = flags.get("data-dir", "/var/lib/etcd")
    return {
        "manifest": bool(_manifest(root).strip()),
        "flags": {name: flags[name] for name in sorted(flags) if name in _FLAGS or name.startswith(_REMOVED)},
        "data_dir": data,
        "data": attempt(lambda: _data(root + data)),
        "service": attempt(_service),
        "backups": backups(root),
    }


def _service() -> dict[str, Any] | None:
    """The service of the host that is etcd; a failed or stopped one that is enabled still is. Raises Failed."""
    found = unit(_SERVICE)
    return found if found["state"] in _RUNS or found["enabled"] == "enabled" else None


def _flags(root: str) -> dict[str, str]:
    """The flags in etcd's manifest; empty when there is none, or where variables say all."""
    return manifest_flags(_manifest(root).decode())


def _manifest(root: str) -> bytes:
    """etcd's manifest; empty when there is none."""
    try:
        return read(root + _MANIFEST)
    except OSError:
        return b""


def _data(folder: str) -> str:
    if not os.path.isdir(folder):
        return "missing"
    database = folder + "/member/snap/db"
    return "present" if os.path.isfile(database) and os.path.getsize(database) else "empty"


def server(root: str, expected: list[str]) -> dict[str, Any]:
    """What the member on this host answers; `expected`: keys of which a cluster's data has at least one."""
    flags = _flags(root)
    try:
        return _asked(root, flags, expected)
    except Failed:
        waiting: dict[str, Any] = attempt(lambda: _waiting(flags))
        if "unknown" in waiting:
            raise
        return waiting


def client(root: str) -> tuple[ssl.SSLContext, str, int]:
    """How to reach the member on this host: TLS with kubeadm's client certificate, address and port. Raises Failed."""
    return _client(root, _flags(root))


def client_port(root: str) -> int:
    """Where kube-apiserver and others are connected to the member on this host. Raises Failed."""
    return _place(_flags(root).get("listen-client-urls", _CLIENTS))[1]


def asked(root: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the member on this host answers at a path of its gateway. Raises Failed if it refuses, or doesn't answer."""
    tls, address, port = client(root)
    status, text = get(tls, address, port, address, path, None if body is None else json.dumps(body))
    if status != 200:
        raise Failed(f"etcd refused {path} (HTTP {status}): {text.strip()[:300]}")
    answer: dict[str, Any] = json.loads(text)
    return answer


def _client(root: str, flags: dict[str, str]) -> tuple[ssl.SSLContext, str, int]:
    files = {
        "ca": flags.get("trusted-ca-file", _PKI + "/ca.crt"),
        "cert": _PKI + "/healthcheck-client.crt",
        "key": _PKI + "/healthcheck-client.key",
    }
    # Where HTTP has listeners of its own, those of gRPC refuse it.
    address, port = _place(flags.get("listen-client-http-urls") or flags.get("listen-client-urls", _CLIENTS))
    address = "127.0.0.1" if address in ("0.0.0.0", "::") else address
    if not os.path.exists(root + files["cert"]):
        raise Failed(f"etcd can't be queried: {files['cert']} does not exist")
    tls = context(read(root + files["ca"]).decode())
    tls.load_cert_chain(root + files["cert"], root + files["key"])
    return tls, address, port


def _place(listens: str) -> tuple[str, int]:
    urls = listens.split(",")
    url = next((u for u in urls if "127.0.0.1" in u), urls[0])
    match = re.match(r"https://\[?([^\]/]+?)\]?:(\d+)$", url)
    if not match:
        raise Failed(f"etcd listens on {url}, which is not HTTPS")
    return match.group(1), int(match.group(2))


def _asked(root: str, flags: dict[str, str], expected: list[str]) -> dict[str, Any]:
    tls, address, port = _client(root, flags)

    def ask(path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        status, text = get(tls, address, port, address, path, None if body is None else json.dumps(body))
        try:
            return status, json.loads(text)
        except ValueError:
            return status, {"reason": text.strip()[:300]}

    # What the member itself knows (nothing linearizable): the answers come without a quorum, too.
    found = _status(_good(ask("/v3/maintenance/status", {})))
    found["members"] = attempt(
        lambda: [_member(m) for m in _good(ask("/v3/cluster/member/list", {})).get("members", [])]
    )
    found["has_cluster"] = attempt(lambda: has_any(ask, expected))
    # This one goes through the whole cluster, and takes its time when there is no quorum.
    try:
        status, health = ask("/health")
        found.update(healthy=status == 200, said=str(health.get("reason") or f"HTTP {status}"))
    except Failed as error:
        found.update(healthy=False, said=str(error))
    return found


def _waiting(flags: dict[str, str]) -> dict[str, Any]:
    """A member that was started without a quorum serves no clients, but its metrics port reports the reason."""
    url = next((u for u in flags.get("listen-metrics-urls", _METRICS).split(",") if u.startswith("http://")), "")
    address, _, port = url[len("http://") :].rpartition(":")
    status, text = plain(address, int(port), "/health")
    if status == 200:
        raise Failed("it is healthy, but serves no clients")
    reason = str(json.loads(text).get("reason", ""))
    silent = unknown("it serves no clients")
    return dict(_status({}), healthy=False, said=reason, members=unknown(_NO_MEMBERS), has_cluster=silent)


def has_any(ask: Ask, keys: list[str]) -> bool:
    """Whether the member stores any of these keys, by its own data: no quorum is needed."""
    if not keys:
        raise Failed("no checkpoint names a workload to look for in etcd")
    for key in keys:
        wanted = {"key": base64.b64encode(key.encode()).decode(), "count_only": True, "serializable": True}
        if int(_good(ask("/v3/kv/range", wanted)).get("count") or 0):
            return True
    return False


def _status(status: dict[str, Any]) -> dict[str, Any]:
    errors = " ".join(str(error) for error in status.get("errors") or [])
    return {
        "version": str(status.get("version", "")),
        "id": _hexadecimal((status.get("header") or {}).get("member_id")),
        "leader": _hexadecimal(status.get("leader")),
        "revision": int((status.get("header") or {}).get("revision") or 0),
        "db_size": int(status.get("dbSize") or 0),
        "db_quota": int(status.get("dbSizeQuota") or 0),
        "db_in_use": int(status.get("dbSizeInUse") or 0),
        "alarms": [
            {"member": _hexadecimal(member), "kind": kind}
            for member, kind in re.findall(r"memberID:(\d+)\s+alarm:(\w+)", errors)
        ],
    }


def _good(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    status, body = answer
    if status != 200:
        raise Failed(str(body.get("message") or body.get("error") or body.get("reason") or f"HTTP {status}"))
    return body


def _member(member: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": _hexadecimal(member.get("ID")),
        "name": member.get("name", ""),
        "peers": member.get("peerURLs", []),
        "clients": member.get("clientURLs", []),
        "learner": bool(member.get("isLearner")),
    }


def _hexadecimal(number: Any) -> str:
    """An ID as etcd's own tools write it; empty for none (0)."""
    return format(int(number), "x") if number and int(number) else ""


_BACKUP_FOLDERS = (
    "/var/lib/etcd-backup",
    "/var/backups",
    "/var/backups/etcd",
    "/etc/kubernetes/upgrader/backups",
    "/opt/etcd-backup",
    "/root",
)


def backups(root: str) -> list[dict[str, Any]]:
    """Files that are probably snapshots of etcd, the newest first."""
    folders = list(_BACKUP_FOLDERS)
    temporary = root + "/etc/kubernetes/tmp"  # where `kubeadm upgrade` keeps what was there before
    if os.path.isdir(temporary):
        folders += [f"/etc/kubernetes/tmp/{name}" for name in os.listdir(temporary) if "etcd" in name]
    found: list[tuple[float, str, int]] = []
    for folder in folders:
        try:
            entries = list(os.scandir(root + folder))
        except OSError:
            continue
        for entry in entries:
            if entry.is_file() and (entry.name.endswith(".db") or ("etcd" in entry.name and "snap" in entry.name)):
                status = entry.stat()
                found.append((status.st_mtime, f"{folder}/{entry.name}", status.st_size))
    newest = sorted(found, reverse=True)[:5]
    return [{"path": path, "size": size, "changed": changed} for changed, path, size in newest]
