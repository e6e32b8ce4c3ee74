"""Adoption is refused where the pod-checkpointer couldn't ask the container runtime."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from upgrader.adopt.container_runtime import check_container_runtime
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult, Kind

HOST = Host("controller-1", "10.0.0.1")


def world(runtime: str, *sockets: str) -> tuple[FakeKube, FakeHosts]:
    """A controller whose kubelet reports that runtime, with these sockets."""
    kube, hosts = FakeKube(), FakeHosts()
    node = {"metadata": {"name": HOST.name}, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}
    kube.put(Kind("v1", "nodes", namespaced=False), node)

    def sh(_: Host, command: Sequence[str], __: bytes) -> CommandResult:
        return CommandResult(0 if command[-1] in sockets else 1, "", "")

    hosts.commands["sh"] = sh
    return kube, hosts


@pytest.mark.parametrize("runtime", ["cri-o://1.33.0", "docker://26.1.0"])
def test_another_runtime_is_refused_before_anything_changes(runtime: str) -> None:
    """By its name; the API would have been interrupted before the first pod-checkpointer failed."""
    kube, hosts = world(runtime, "/run/containerd/containerd.sock")
    with pytest.raises(Blocked, match=f"controller-1 uses the container runtime {runtime}") as caught:
        check_container_runtime(kube, hosts, [HOST], {})
    assert "nothing was changed" in caught.value.message


def test_containerd_elsewhere_has_to_be_told() -> None:
    """Its socket is where the values say, or there is no adoption."""
    kube, hosts = world("containerd://2.2.1", "/run/k3s/containerd/containerd.sock")
    with pytest.raises(Blocked, match=r"containerd's socket /run/containerd/containerd\.sock") as caught:
        check_container_runtime(kube, hosts, [HOST], {})
    assert "containerdFolder" in caught.value.remedy
    check_container_runtime(kube, hosts, [HOST], {"containerdFolder": "/run/k3s/containerd/"})


def test_the_usual_one() -> None:
    """As kubeadm has it."""
    check_container_runtime(*world("containerd://1.7.27", "/run/containerd/containerd.sock"), [HOST], {})
