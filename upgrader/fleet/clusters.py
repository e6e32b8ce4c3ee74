"""What a campaign asks of a cluster itself: which one it is, and which version its API server has."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path

from upgrader.app.observe_cluster import server_version
from upgrader.app.wiring import open_api
from upgrader.config.copied_kubeconfig import UsedKubeconfig
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import ApiError, UsageError
from upgrader.fleet.cluster_traits import cluster_traits
from upgrader.fleet.model import FleetCluster
from upgrader.gates.continuity.server_metrics import answered
from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES, NAMESPACES
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kube

__all__ = [
    "Answer",
    "Answered",
    "answer_of",
    "ask_cluster",
    "ask_traits",
    "keep_kubeconfig",
    "other_cluster",
    "private_folder",
    "private_kubeconfig",
    "remove_left_kubeconfigs",
    "requests_answered",
]

_SECONDS = 5.0
_NUMBER_CHARACTERS = 64
"""Far more than Go writes of a number."""
_UID = re.compile(r"[!-~]{1,253}")
"""Any text that is one, and no more: `fleet init` writes it into a file, and reasons and messages have it."""
_PREFIX = "upgrader-fleet-"
_NEW_SECONDS = 60.0
"""A folder that was just made may not be locked yet."""


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
        return answer_of(kube)


def answer_of(kube: Kube) -> Answer:
    """The same, of the cluster with this API."""
    version = server_version(kube).binary
    namespace = kube.get(NAMESPACES, "kube-system")
    if namespace is None:
        raise ApiError("the API server has no namespace kube-system, whose UID identifies the cluster")
    metadata = namespace.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str) or not _UID.fullmatch(uid):
        raise ApiError("the namespace kube-system has no valid UID, which identifies the cluster")
    return Answer(uid, version)


def ask_traits(kubeconfig: Path) -> tuple[str, ...]:
    """What the cluster that a kubeconfig leads to is made of, as `cluster_traits`. Raises UsageError for a kubeconfig
    that is wrong.
    """
    with open_api(kubeconfig, _SECONDS) as kube:
        return tuple(sorted(cluster_traits(kube)))


@dataclass(frozen=True)
class Answered:
    """How many requests one of a cluster's API servers has answered."""

    server: str
    """As in `RequestsCounted`."""
    requests: int
    servers: int = 1
    """How many the cluster has."""

    def started_after(self, time: datetime) -> bool:
        """Whether its process has started since, if its clock is right."""
        return float(self.server) >= time.timestamp()


def requests_answered(kubeconfig: Path) -> Answered:
    """How many requests for objects the API server that a kubeconfig leads to has answered since it started, as it
    says; see `answered`. A cluster whose API servers aren't listed, or may not be, has one. Raises ApiError, also if it
    doesn't say, and UsageError for a kubeconfig that is wrong.
    """
    with open_api(kubeconfig, _SECONDS) as kube:
        said = kube.raw("/metrics")
        servers = _servers(kube)
    try:
        found = answered(said)
        float(found.start)
        if len(found.start) > _NUMBER_CHARACTERS:  # written down as it is, in the journal of all clusters
            raise ValueError(f"{found.start[:_NUMBER_CHARACTERS]}… has too many digits")
        return Answered(found.start, int(found.requests), servers)
    except (ValueError, OverflowError) as error:
        raise ApiError(f"the metrics of kube-apiserver can't be read: {error}") from error


def _servers(kube: Kube) -> int:
    try:
        slices = kube.list(ENDPOINT_SLICES, "default", labels="kubernetes.io/service-name=kubernetes")
    except ApiError as error:
        if error.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
            raise
        return 1  # who may read the metrics need not have a right to list EndpointSlices
    ends = (each for item in slices for each in item.get("endpoints") or ())
    return max(len({address for each in ends for address in each.get("addresses") or ()}), 1)


def other_cluster(answer: Answer, cluster: FleetCluster) -> str:
    """That it isn't the inventory's cluster that has answered; "" if it is."""
    if answer.uid == cluster.uid:
        return ""
    said = f"its kubeconfig points to the cluster with the UID {answer.uid}; the inventory has {cluster.uid}"
    return f"{cluster.place}{said}"


@contextmanager
def private_kubeconfig(used: UsedKubeconfig) -> Iterator[Path]:
    """A file of it for a moment, which no one else can read or change. Raises UsageError."""
    with private_folder() as folder:
        kubeconfig = folder / "kubeconfig"
        try:
            kubeconfig.touch(mode=0o600, exist_ok=False)
            kubeconfig.write_bytes(used.content)
        except OSError as error:
            raise UsageError(f"{kubeconfig} can't be written: {error.strerror}") from error
        yield kubeconfig


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for a moment, for files with credentials. Raises UsageError."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
    except OSError as error:
        raise UsageError(f"no temporary folder can be made: {error.strerror}") from error
    with folder as name:
        lock = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)  # as long as this process lives: what isn't locked was left behind
            yield Path(name)
        finally:
            os.close(lock)


def remove_left_kubeconfigs() -> None:
    """Remove the folders of `private_folder` that processes of this user have left behind which were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is another user's, or its process is just removing it
            _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _NEW_SECONDS:
            return
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(folder)


def keep_kubeconfig(used: UsedKubeconfig, path: Path) -> None:
    """Replace a file with it, which only this user can read. Raises UsageError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, used.content)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from error
