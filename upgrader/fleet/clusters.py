"""What a campaign asks of a cluster itself: which one it is, and which version its API server has."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.observe_cluster import server_version
from upgrader.app.wiring import open_api
from upgrader.config.used_kubeconfig import UsedKubeconfig
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import ApiError, UsageError
from upgrader.gates.kubernetes_kinds import NAMESPACES
from upgrader.model.version import KubernetesVersion

__all__ = ["Answer", "ask_cluster", "keep_kubeconfig", "private_kubeconfig"]

_SECONDS = 5.0


@dataclass(frozen=True)
class Answer:
    """What a cluster's API server said."""

    uid: str
    """Of the namespace kube-system."""
    version: KubernetesVersion


def ask_cluster(kubeconfig: Path) -> Answer:
    """Ask the cluster that a kubeconfig leads to. Raises ApiError if it doesn't answer, refuses, or says what no API
    server says, and UsageError for a kubeconfig that is wrong.
    """
    with open_api(kubeconfig, _SECONDS) as kube:
        version = server_version(kube).binary
        namespace = kube.get(NAMESPACES, "kube-system")
    if namespace is None:
        raise ApiError("the API server knows no namespace kube-system, so it isn't known which cluster it is of")
    metadata = namespace.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str) or not uid:
        raise ApiError("the API server's namespace kube-system has no UID, so it isn't known which cluster it is of")
    return Answer(uid, version)


@contextmanager
def private_kubeconfig(used: UsedKubeconfig) -> Iterator[Path]:
    """A file of it for a moment, which no one else can read or change. Raises UsageError."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="upgrader-fleet-")
    except OSError as error:
        raise UsageError(f"no temporary folder can be made: {error.strerror}") from error
    with folder as name:
        kubeconfig = Path(name, "kubeconfig")
        keep_kubeconfig(used, kubeconfig)
        yield kubeconfig


def keep_kubeconfig(used: UsedKubeconfig, path: Path) -> None:
    """Replace a file with it, which only this user can read. Raises UsageError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, used.content)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from error
