"""Services whose addresses or ports the target's ranges don't have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.steps.rehearsal.fake_api import FakeApi
from upgrader.onhost.rehearsal.api import Listed, Page, Resource
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.onhost.rehearsal.service_ranges import ranges_of
from upgrader.steps.rehearsal.differences import Difference, findings_of
from upgrader.steps.rehearsal.redacted import redacted
from upgrader.steps.rehearsal.result import Result

SERVICES = Resource("", "services", "v1", "Service", True, ("get", "list"))
CIDRS = Resource("networking.k8s.io", "servicecidrs", "v1", "ServiceCIDR", False, ("get", "list"))


def service(name: str, **spec: Any) -> dict[str, Any]:
    """As a server lists it."""
    metadata = {"name": name, "namespace": "shop", "resourceVersion": "5"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


class Server(FakeApi):
    """Has Services, and ServiceCIDRs if it serves them."""

    def __init__(self, *services: dict[str, Any], cidrs: tuple[str, ...] | None = None) -> None:
        super().__init__(services)
        self.served = SERVICES
        metadata = {"name": "kubernetes", "resourceVersion": "5"}
        self._cidrs = [] if cidrs is None else [{"metadata": metadata, "spec": {"cidrs": list(cidrs)}}]

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        """As `Api.resources`."""
        cidrs = {(CIDRS.group, CIDRS.plural): [CIDRS]} if self._cidrs else {}
        return {**super().resources(), **cidrs}

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        """As `Api.page`."""
        if resource == CIDRS:
            return Page([Listed.of(dict(each)) for each in self._cidrs])
        return super().page(resource, at, same, limit, selector)


def found(current: Server, target: Server, before: tuple[str, ...], after: tuple[str, ...]) -> dict[str, Difference]:
    """What → what is found, with these flags."""
    comparison = Comparison(
        current,  # type: ignore[arg-type]
        target,  # type: ignore[arg-type]
        10,
        float("inf"),
        ranges=(ranges_of(before), ranges_of(after)),
    )
    comparison.run(write=False)
    differences = [Difference(**{**each, "names": tuple(each["names"])}) for each in comparison.findings()]
    return {each.what: each for each in differences if each.what.endswith("-range")}


PORTS = service("web", ports=[{"nodePort": 31000}, {"nodePort": 32000}, {}], healthCheckNodePort=32001)
ADDRESS = service("db", clusterIP="10.96.7.7", clusterIPs=["10.96.7.7", "fd00::7"])
INSIDE = service("api", clusterIP="10.96.0.7", ports=[{"nodePort": 30000}])
HEADLESS = service("peers", clusterIP="None", clusterIPs=["None"], ports=[{"port": 1}])
ALL = (PORTS, ADDRESS, INSIDE, HEADLESS)


def test_a_service_whose_node_ports_the_target_does_not_have_is_named() -> None:
    """The target accepts each update that leaves the ports, and each dry run that creates them. After the upgrade, the
    same manifest is refused.
    """
    servers = Server(*ALL), Server(*ALL)
    both = found(*servers, (), ("--service-node-port-range=30000-31000",))
    assert both.keys() == {"port-range"}
    (finding,) = findings_of(both.values())
    assert (finding.id, finding.severity) == ("rehearsal.service-range", "error")
    assert "1 of services: shop/web (32000, 32001)" in finding.diagnosis
    assert "--service-node-port-range=30000-31000" in finding.diagnosis and finding.remedy


def test_a_service_whose_address_the_target_does_not_have_is_named() -> None:
    """In a version that takes the range from its flag."""
    servers = Server(*ALL), Server(*ALL)
    before = ("--service-cluster-ip-range=10.96.0.0/16,fd00::/112",)
    both = found(*servers, before, ("--service-cluster-ip-range=10.96.0.0/22, fd00::/112",))
    assert both["address-range"].names == ("shop/db (10.96.7.7)",) and both.keys() == {"address-range"}
    (finding,) = findings_of(both.values())
    assert finding.id == "rehearsal.service-range" and "10.96.0.0/22" in finding.diagnosis
    both = found(*servers, before, ("--service-cluster-ip-range=10.96.0.0/16",))
    assert both["address-range"].names == ("shop/db (fd00::7)",)


def test_service_cidrs_count_and_not_the_flag_of_a_server_that_has_them() -> None:
    """Since v1.33: a flag that was changed later has no effect on them, so that no Service falls out of a range."""
    before, after = ("--service-cluster-ip-range=10.96.0.0/16",), ("--service-cluster-ip-range=10.97.0.0/16",)
    old = ("10.96.0.0/16",)
    assert not found(Server(*ALL, cidrs=old), Server(*ALL, cidrs=old), before, after)
    assert not found(Server(*ALL), Server(*ALL, cidrs=old), before, after)
    made = found(Server(*ALL), Server(*ALL, cidrs=("10.97.0.0/16",)), before, after)
    assert made["address-range"].count == 2 and "10.97.0.0/16 (ServiceCIDRs)" in made["address-range"].reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), ()),
        ((), ("--service-node-port-range=30000-32767", "--service-cluster-ip-range=10.0.0.0/24")),
        (("--service-node-port-range=30000+2767",), ("--service-node-port-range=1-65535",)),
        (
            ("--service-node-port-range=31000",),
            ("--service-node-port-range=1", "--service-node-port-range=31000-31001"),
        ),
        # Neither has the Services' addresses and ports: that is so today.
        (
            ("--service-node-port-range=1-9", "--service-cluster-ip-range=10.1.0.0/16"),
            ("--service-node-port-range=2-9", "--service-cluster-ip-range=10.2.0.0/16"),
        ),
        (("--service-node-port-range=what",), ("--service-cluster-ip-range=ever", "--service-node-port-range=-")),
    ],
)
def test_ranges_that_lose_nothing_are_no_finding(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """The same ones in another form, wider ones, and what is outside of both."""
    assert not found(Server(*ALL), Server(*ALL), before, after)


def test_redacted_findings_have_neither_names_nor_addresses() -> None:
    """The addresses of a network say more than placeholders."""
    both = found(
        Server(*ALL),
        Server(*ALL),
        ("--service-cluster-ip-range=10.96.0.0/16",),
        ("--service-cluster-ip-range=10.97.0.0/16", "--service-node-port-range=30000-31000"),
    )
    assert both.keys() == {"address-range", "port-range"}
    shown = json.dumps([str(each) for each in redacted(Result("a", tuple(both.values()), {}, 1.0, 1)).differences])
    for word in ("shop", "web", "10.9", "320"):
        assert word not in shown
    assert "namespace-1/object-1" in shown
