"""The node as an observation sees it: the runtime's answers, probes, and the etcd that a generation needs."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, made, pod
from tests.unit.in_cluster.checkpointer.container_runtime import Runtime, container, field, sandbox
from upgrader.in_cluster.checkpointer.checkpointer_errors import RuntimeUnknown
from upgrader.in_cluster.checkpointer.observation.local_node import Machine
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.generation import MANIFEST, Origin
from upgrader.onhost.node.workload_policy import Policy


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A node with an empty store, whose runtime listens at `s`."""
    store = Store(tmp_path / "kubernetes")
    store.prepare()
    return Machine(str(tmp_path / "s"), 20, store)


def needing(machine: Machine, port: int) -> int:
    """A generation of kube-apiserver that uses etcd on that port; its number."""
    containers = [{"name": "kube-apiserver", "image": "x", "args": [f"--etcd-servers=https://127.0.0.1:{port}"]}]
    origin = Origin("kube-apiserver-abc-x1", "u", "controller-1", "abc", "4", "2026-01-01T00:00:00Z")
    return machine.store.capture(made(pod(containers=containers)), Policy.API_AWAY, "", origin)


def test_the_runtime_is_asked_over_its_socket(machine: Machine) -> None:
    """Sandboxes with their containers come from the given socket; when it is gone, nothing is known."""
    answers = {"ListContainers": container("main", 1, "c1"), "ListPodSandbox": sandbox()}
    runtime = Runtime(Path(machine.socket), lambda method: (answers.get(method.rpartition("/")[2], b""), "0"))
    (found,) = machine.sandboxes()
    assert [c.id for c in found.containers] == ["c1"]
    assert machine.images(["a:v1"]) == {"a:v1": False}
    runtime.close()
    for question in (machine.sandboxes, lambda: machine.images(["a:v1"])):
        with pytest.raises(RuntimeUnknown):
            question()


def test_images_that_a_static_pod_can_not_use(machine: Machine, tmp_path: Path) -> None:
    """The runtime names the image, the kubelet's records name its credentials; without verification none is asked."""
    answer = field(1, field(1, "sha256:aa"))
    runtime = Runtime(Path(machine.socket), lambda _: (answer, "0"))
    (tmp_path / f"sha256-{hashlib.sha256(b'sha256:aa').hexdigest()}").write_text("{}")
    asked = replace(machine, pull_records=tmp_path)
    assert list(asked.locked(["a:v1"])) == ["a:v1"]
    assert replace(machine, pull_records=tmp_path / "none").locked(["a:v1"]) == {}
    runtime.close()
    assert replace(machine, pull_records=None).locked(["a:v1"]) == {}
    with pytest.raises(RuntimeUnknown):
        asked.locked(["a:v1"])


def test_static_pods_of_others_are_those_in_the_folder(machine: Machine) -> None:
    """kubeadm's manifests lie beside ours."""
    machine.store.manifests.mkdir(exist_ok=True)
    manifest = "kind: Pod\nmetadata: {name: kube-apiserver, namespace: kube-system}\n"
    (machine.store.manifests / "kube-apiserver.yaml").write_text(manifest)
    assert machine.static_pods() == {API}


def test_a_generation_is_blocked_while_its_etcd_is_unreachable(machine: Machine) -> None:
    """A standby pod that can't stay up for want of etcd isn't counted as failed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = needing(machine, listener.getsockname()[1])
        assert not machine.blocked(API, number)
    assert machine.blocked(API, number)


@pytest.mark.parametrize("manifest", [b"{", b"{}", b"[]", None])
def test_a_generation_that_cannot_be_read_waits_for_no_etcd(machine: Machine, manifest: bytes | None) -> None:
    """Damage is a fault of the generation's own: it must not be excused for ever as one of etcd's."""
    number = needing(machine, 1)
    assert machine.blocked(API, number)
    path = machine.store.generation(API, number) / MANIFEST
    path.unlink() if manifest is None else path.write_bytes(manifest)
    assert not machine.blocked(API, number)


def test_a_pod_s_own_probe_is_asked(machine: Machine) -> None:
    """A pod whose port nobody listens on isn't ready, whatever the API says; one without a probe isn't doubted."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        probe = {"tcpSocket": {"port": unused.getsockname()[1]}}
        found = pod(containers=[{"name": "main", "image": "x", "readinessProbe": probe}])
        found["status"]["podIP"] = "127.0.0.1"
        assert "refused" in machine.unready(found, 1)
    assert machine.unready(pod(), 1) == ""


def test_kube_apiserver_whose_etcd_does_not_answer_is_not_ready(machine: Machine) -> None:
    """It runs for 20 s before it ends, and may be Ready meanwhile: without a probe of its own, or by another's
    answer.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flag = f"--etcd-servers=https://127.0.0.1:{listener.getsockname()[1]}"
        found = pod(containers=[{"name": "kube-apiserver", "image": "x", "args": [flag]}])
        assert machine.unready(found, 1) == ""
    assert "--etcd-servers" in machine.unready(found, 1)
