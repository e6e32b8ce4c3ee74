"""Controllers as a diagnosis describes them, for tests of what is done about them."""

from __future__ import annotations

from dataclasses import replace

from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import (
    ActiveManifest,
    Clock,
    Container,
    Endpoint,
    Etcd,
    EtcdServer,
    Generation,
    HostFacts,
    Manifests,
    Unit,
    Unknown,
    Workload,
)
from upgrader.recover.diagnosis.diagnose import Controller

__all__ = ["ACTIVE_PATH", "NOW", "controller", "generation"]

NOW = 1_800_000_000.0
FOLDER = "/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver/generations"
ACTIVE_PATH = "/etc/kubernetes/manifests/checkpoint-kube-system.kube-apiserver.json"


def generation(
    number: int, *, damage: str = "", failure: str = "", missing: tuple[str, ...] | Unknown = ()
) -> Generation:
    """A generation of kube-apiserver, intact, not failed and with its images unless stated otherwise."""
    at = "2026-11-21T10:00:00Z"
    return Generation(number, f"{FOLDER}/{number}", at, damage=damage, failure=failure, missing=missing)


def controller(
    name: str = "controller-1",
    *,
    generations: tuple[Generation, ...] = (generation(3), generation(4)),
    active: int | None = None,
    in_place: bool | None = None,
    serves: bool | None = False,
    start: tuple[str, ...] = (),
    etcd: bool | None = True,
    running_for: float | None = None,
    only_standby_runs: bool = False,
    containers: tuple[Container, ...] | Unknown = (),
    blocked: str = "",
) -> Controller:
    """A controller that was reached. `active`: the generation in place; `in_place` True with None: a damaged standby
    pod.
    """
    host = Host(name, f"10.0.0.{name[-1]}")
    if running_for is not None:
        containers = (Container("kube-apiserver-abc", "kube-system", "kube-apiserver", "running"),)
        containers = (replace(containers[0], started=NOW - running_for, standby=only_standby_runs),)
    standby = ActiveManifest(ACTIVE_PATH, active) if active is not None or in_place else None
    server: EtcdServer | Unknown = Unknown("no answer") if etcd is None else EtcdServer(healthy=etcd)
    workload = Workload("kube-system/kube-apiserver", "api-away", ACTIVE_PATH, generations, standby)
    facts = HostFacts(
        taken=NOW,
        booted=NOW - 60,
        clock=Clock(0.0, 0.1),
        kubelet=Unit("kubelet", "active", "running"),
        containerd=Unit("containerd", "active", "running"),
        runtime=Endpoint(True),
        spaces=(),
        certificates=(),
        manifests=Manifests(True),
        etcd=Etcd(True, "/var/lib/etcd", "present", server),
        api=Unknown("not asked") if serves is None else Endpoint(serves),
        containers=containers,
        workloads=(workload,),
    )
    return Controller(host, facts, (), serves=serves, start=start, active=active, blocked=blocked)
