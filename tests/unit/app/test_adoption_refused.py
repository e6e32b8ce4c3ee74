"""What `upgrader adopt` refuses before it derives anything: the checks on the controllers are asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.unit.adopt.kubeadm_pods import FLAGS, PKI, kubeadm_facts, kubeadm_pod
from tests.unit.app.test_controllers_change import LAST, healthy_place
from tests.unit.gates.builders import add_pod, crashed
from upgrader.adopt.facts import MANIFESTS, StaticPod
from upgrader.app import adoption, new_controllers
from upgrader.app.front_end import FrontEnd
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult

_BOTH = pytest.mark.parametrize("joined", [False, True], ids=["the first adoption", "a controller that joined"])
_COPY = f"{MANIFESTS}/kube-apiserver.yaml.bak"


@_BOTH
def test_a_copy_of_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool) -> None:
    """On the last controller, of which nothing else is odd."""
    place = healthy_place(tmp_path, monkeypatch, adoption, new_controllers)

    def listed(host: Host, command: Sequence[str], _: bytes) -> CommandResult:
        there = host.name == LAST and f"{MANIFESTS}/*;" in command[-1]
        return CommandResult(0, f"{_COPY}\n" if there else "", "")

    place.hosts.commands["sh"] = listed
    place.hosts.files[LAST, _COPY] = kubeadm_pod("kube-apiserver").manifest
    for name in FLAGS:
        place.hosts.files[LAST, f"{MANIFESTS}/{name}.yaml"] = kubeadm_pod(name).manifest
    with pytest.raises(Blocked, match=f"{LAST}: {_COPY} is a second manifest of kube-apiserver"):
        (place.adoption() if joined else adoption.adoption(place.folder, FrontEnd())).__enter__()


@pytest.mark.parametrize("version", [KubernetesVersion(1, 31, 4), KubernetesVersion(1, 22, 17)])
def test_a_cluster_older_than_the_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: KubernetesVersion
) -> None:
    """Before its files are read, as an error about them, or Helm's about the built-in charts, would help nobody."""
    place = healthy_place(tmp_path, monkeypatch, adoption)
    place.kube.raw_answers["/version"] = json.dumps({"gitVersion": str(version)})
    with pytest.raises(Blocked, match=f"the control plane runs Kubernetes {version}, which is older") as caught:
        adoption.adoption(place.folder, FrontEnd()).__enter__()
    assert "v1.32" in caught.value.message and "kubeadm" in caught.value.remedy


def test_a_configuration_older_than_the_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control plane was upgraded by other means than kubeadm: its ConfigMap has the version of years ago."""
    place = healthy_place(tmp_path, monkeypatch, adoption)
    for name in FLAGS:
        place.hosts.files[LAST, f"{MANIFESTS}/{name}.yaml"] = kubeadm_pod(name).manifest
    known = kubeadm_facts()
    old = replace(known, configuration={**known.configuration, "kubernetesVersion": "v1.22.17"})
    monkeypatch.setattr(adoption, "read_facts", lambda *_: old)
    monkeypatch.setattr(adoption, "with_single_files", lambda *_: old)
    monkeypatch.setattr(adoption, "node_addresses", lambda *_: ("10.0.0.1",))
    with pytest.raises(Blocked, match=r"kubeadm-config: kubernetesVersion: v1\.22\.17 is older than v1\.32") as caught:
        adoption.adoption(place.folder, FrontEnd()).__enter__()
    assert "kubectl -n kube-system edit configmap kubeadm-config" in caught.value.remedy


@_BOTH
def test_a_port_below_the_unprivileged_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool) -> None:
    """Before anything is derived from the static pods, of which nothing else is odd."""
    place = healthy_place(tmp_path, monkeypatch, adoption, new_controllers)
    place.hosts.commands["cat"] = CommandResult(0, "1024\n", "")
    at_443 = kubeadm_pod("kube-apiserver", {"secure-port": "443"})
    for name in FLAGS:
        pod = at_443 if name == "kube-apiserver" else kubeadm_pod(name)
        place.hosts.files[LAST, f"{MANIFESTS}/{name}.yaml"] = pod.manifest
    with pytest.raises(Blocked, match="kube-apiserver listens on port 443, but the chart's pods can't listen there"):
        (place.adoption() if joined else adoption.adoption(place.folder, FrontEnd())).__enter__()


@_BOTH
def test_a_proxy_that_only_the_controller_can_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    """Before the charts are rendered; the operator's own values may name another one."""
    place = healthy_place(tmp_path, monkeypatch, adoption, new_controllers)
    env = [{"name": "HTTPS_PROXY", "value": "http://127.0.0.1:3128"}]
    behind = kubeadm_pod("kube-scheduler", container={"env": env})
    place.hosts.files[LAST, f"{MANIFESTS}/kube-scheduler.yaml"] = behind.manifest
    monkeypatch.setattr(adoption, "read_facts", lambda *_: kubeadm_facts(behind))
    monkeypatch.setattr(adoption, "with_single_files", lambda *_: kubeadm_facts(behind))
    monkeypatch.setattr(adoption, "node_addresses", lambda *_: ("10.0.0.1",))
    with pytest.raises(Blocked, match="kube-scheduler's static pod has the variable HTTPS_PROXY"):
        (place.adoption() if joined else adoption.adoption(place.folder, FrontEnd())).__enter__()


@_BOTH
def test_a_port_that_only_the_kubelet_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool) -> None:
    """Before anything relies on the port: it is named, and no error of a conversion."""
    place = healthy_place(tmp_path, monkeypatch, adoption, new_controllers)
    env = [{"name": "PORT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['port']"}}}]
    pod = kubeadm_pod("kube-apiserver", {"secure-port": "$(PORT)"}, container={"env": env})
    place.hosts.files[LAST, f"{MANIFESTS}/kube-apiserver.yaml"] = pod.manifest
    with pytest.raises(Blocked, match=f"kube-apiserver's static pod on {LAST} has the environment variable PORT"):
        (place.adoption() if joined else adoption.adoption(place.folder, FrontEnd())).__enter__()


@_BOTH
def test_a_static_pod_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool) -> None:
    """A misspelt flag, of which nothing else is odd: the chart's pod would be the next that can't start."""
    place = healthy_place(tmp_path, monkeypatch, adoption, new_controllers)
    for name in FLAGS:
        flags = {"feature-gate": "X=true"} if name == "kube-controller-manager" else {}
        place.hosts.files[LAST, f"{MANIFESTS}/{name}.yaml"] = kubeadm_pod(name, flags).manifest
    pod = add_pod(
        place.kube,
        "kube-controller-manager",
        crashed(name="kube-controller-manager"),
        name=f"kube-controller-manager-{LAST}",
        node=LAST,
    )
    place.kube.log_texts[pod, "kube-controller-manager", False] = "Error: unknown flag: --feature-gate\n"
    with pytest.raises(Blocked, match=f"static pod on {LAST}: .*unknown flag: --feature-gate"):
        (place.adoption() if joined else adoption.adoption(place.folder, FrontEnd())).__enter__()


def _deployment(pod: StaticPod, *more: str) -> str:
    """A release whose pod has the flags of a static pod, and more."""
    container = {**pod.container, "command": [*pod.container["command"], *more]}
    spec = {"template": {"spec": {"containers": [container]}}}
    return yaml.safe_dump(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": pod.component}, "spec": spec}
    )


def test_a_file_of_a_release_that_a_controller_that_joined_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder of certificates, which kube-controller-manager's pod mounts as a whole: no volume waits for it."""
    place = healthy_place(tmp_path, monkeypatch, new_controllers)
    pod = kubeadm_pod("kube-controller-manager")
    place.hosts.files[LAST, f"{MANIFESTS}/kube-controller-manager.yaml"] = pod.manifest
    own = f"{PKI}/metrics.crt"
    place.world.helm.install("kubernetes", _deployment(pod, f"--tls-cert-file={own}"))
    with pytest.raises(Blocked, match=f"{LAST} has no file {own}: the chart starts kube-controller-manager with "):
        place.adoption().__enter__()
    there = CommandResult(0, f"81a4 0 0 {own}\n", "")
    place.hosts.commands["sh"] = lambda _, __, asked: there if own in asked.decode() else CommandResult(0, "", "")
    with place.adoption() as found:
        assert [each.host.name for each in found.new] == [LAST]
