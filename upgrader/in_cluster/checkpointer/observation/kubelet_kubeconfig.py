"""The kubelet's own kubeconfig: the only credential that a static pod on this node can have, limited to what runs on
the node.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiUnknown
from upgrader.in_cluster.shared.tls_in_memory import load_cert_chain


@dataclass(frozen=True)
class Endpoint:
    """Where the API server is, and how to be sure of it. `files`: those that the context was made from."""

    host: str
    port: int
    context: ssl.SSLContext
    files: tuple[Path, ...]

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Changes when a file was replaced: the kubelet rotates its certificate."""
        return stamp(self.files)


def stamp(files: tuple[Path, ...]) -> tuple[tuple[int, int], ...]:
    """Inode and time of each file, links followed; zeros for one that isn't there."""
    stamps = []
    for file in files:
        try:
            s = file.stat()
            stamps.append((s.st_ino, s.st_mtime_ns))
        except OSError:
            stamps.append((0, 0))
    return tuple(stamps)


def load(path: Path) -> Endpoint:
    """The endpoint of the current context. Raises ApiUnknown when the file can't be used or asks for unverified TLS."""
    try:
        config = next(yaml.safe_load_all(path.read_bytes()))  # as client-go: what follows the first document is ignored
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        if cluster.get("insecure-skip-tls-verify"):
            raise ApiUnknown(f"{path}: insecure-skip-tls-verify is set; the API server must be verified")
        url = urlsplit(cluster["server"])
        tls, files = _tls(cluster, user, path)
    except (OSError, yaml.YAMLError, KeyError, StopIteration, TypeError, ValueError) as error:
        raise ApiUnknown(f"{path} can't be used: {type(error).__name__}: {error}") from error
    if url.scheme != "https" or not url.hostname:
        raise ApiUnknown(f"{path}: server {cluster['server']} is not an https:// address")
    return Endpoint(url.hostname, url.port or 443, tls, files)


def _named(entries: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> tuple[ssl.SSLContext, tuple[Path, ...]]:
    files = [path]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies, and trusts no authority but the cluster's
    if "certificate-authority-data" in cluster:
        context.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    else:
        files.append(path.parent / cluster["certificate-authority"])
        context.load_verify_locations(cafile=files[-1])
    if "client-certificate-data" in user:
        parts = (base64.b64decode(user[name]) for name in ("client-certificate-data", "client-key-data"))
        load_cert_chain(context, *parts)
    else:
        certificate, key = path.parent / user["client-certificate"], path.parent / user["client-key"]
        context.load_cert_chain(certificate, key)
        files += [certificate, key]
    return context, tuple(files)
