"""A real API server for guard: etcd and kube-apiserver on loopback, no controllers, no kubelets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from testkit.api_servers import api_servers
from testkit.lab_cluster import OLD
from upgrader.adapters.kube import KubeAdapter
from upgrader.ports import Kind

NAMESPACES = Kind("v1", "namespaces", namespaced=False)

ACCOUNT = "system:serviceaccount:ops:guard"
ROLES = ("generator", "aggregator", "ingress")
"""Each has an account of its own: `guard-ROLE`."""
CHECKER = "system:serviceaccount:shop:default"


@dataclass(frozen=True)
class Pair:
    """The two, and who may ask them."""

    kube: KubeAdapter
    kubeconfig: Path
    """The administrator's."""
    account: Path
    """The kubeconfig of the chart's ServiceAccount, which has no rights but those that are given to it."""
    etcd: str
    """Its URL."""
    roles: Mapping[str, Path]
    """The kubeconfig of each of ROLES."""
    checker: Path
    """The kubeconfig of the ServiceAccount that health checkers in `shop` run as."""


_NONE = SimpleNamespace(params={})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the rights that are taken away one by one, the first belongs to `make test`; each is a process of guard."""
    seen: set[str] = set()
    for item in items:
        function = item.nodeid.partition("[")[0]
        if "contract/guard/" in item.nodeid and getattr(item, "callspec", _NONE).params.get("right"):
            if function in seen:
                item.add_marker("soak")
            seen.add(function)


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """With the namespaces `ops`, where guard is, and `shop`, whose workloads it is for."""
    accounts = {role: f"{ACCOUNT}-{role}" for role in ROLES}
    folder = tmp_path_factory.mktemp("guard")
    with api_servers(folder, ACCOUNT, CHECKER, *accounts.values()) as servers, servers.serving(OLD) as kube:
        for name in ("ops", "shop"):
            kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        roles = {role: servers.kubeconfig(account) for role, account in accounts.items()}
        checker = servers.kubeconfig(CHECKER)
        yield Pair(kube, servers.kubeconfig(), servers.kubeconfig(ACCOUNT), servers.etcd_url, roles, checker)
