"""The real side of the contracts: a lab's cluster folder, and what tests make in its cluster."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testkit.api_servers import api_servers
from testkit.lab_cluster import OLD, until
from tests.contract.checking import Make, Status, merge
from upgrader.adapters.hosts import SshHosts
from upgrader.adapters.kube import KubeAdapter, _path
from upgrader.config.inventory import load_hosts
from upgrader.gates.kubernetes_kinds import NAMESPACES
from upgrader.model.cluster import Host
from upgrader.ports import Kind


@pytest.fixture
def lab_folder(request: pytest.FixtureRequest) -> Path:
    """The folder of a running cluster: $UPGRADER_LAB, while you write an adapter, or the tests' own lab."""
    named = os.environ.get("UPGRADER_LAB")
    if named:
        return Path(named).resolve()
    folder: Path = request.getfixturevalue("cluster").folder
    return folder


@pytest.fixture
def kube(lab_folder: Path) -> Iterator[KubeAdapter]:
    """The real API."""
    adapter = KubeAdapter(lab_folder / "kubeconfig")
    try:
        yield adapter
    finally:
        adapter.close()


@pytest.fixture(scope="module")
def bare_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """That of the administrator of a real API server with an etcd: no controllers, no nodes, and no lab."""
    with api_servers(tmp_path_factory.mktemp("bare")) as servers, servers.serving(OLD) as kube:

        def whole() -> bool:
            return None not in (kube.get(NAMESPACES, "default"), kube.get(NAMESPACES, "kube-system"))

        until("the first namespaces", whole, timeout_seconds=60)
        yield servers.kubeconfig()


@pytest.fixture
def machine(lab_folder: Path) -> Host:
    """A lab's first controller."""
    return load_hosts(lab_folder / "hosts.yml")["controllers"][0]


@pytest.fixture
def ssh() -> Iterator[SshHosts]:
    """The adapter of SSH, closed afterwards."""
    with SshHosts() as hosts:
        yield hosts


@pytest.fixture
def made(kube: KubeAdapter) -> Iterator[Make]:
    """Creates objects of a random name, unless they have one, and deletes them afterwards."""
    created: list[tuple[Kind, str, str]] = []

    def make(kind: Kind, manifest: dict[str, Any], namespace: str = "") -> str:
        name = manifest["metadata"].setdefault("name", f"upgrader-check-{uuid.uuid4().hex[:6]}")
        created.append((kind, name, namespace))
        kube.create(kind, manifest, namespace)
        return str(name)

    yield make
    for kind, name, namespace in reversed(created):
        kube.delete(kind, name, namespace)


@pytest.fixture
def status(kube: KubeAdapter) -> Status:
    """Sets fields of an object's status, as only its controller does otherwise."""

    def patch(kind: Kind, name: str, namespace: str, fields: Mapping[str, Any]) -> None:
        merge(kube, f"{_path(kind, namespace, name)}/status", {"status": fields})

    return patch
