"""What `upgrader adopt` refuses before it derives anything: the checks on the controllers are asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.adopt.kubeadm_pods import FLAGS, kubeadm_facts, kubeadm_pod
from tests.unit.app.test_controllers_change import LAST, healthy_place
from upgrader.adopt.facts import MANIFESTS
from upgrader.app import adoption, new_controllers
from upgrader.app.front_end import FrontEnd
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

_COPY = f"{MANIFESTS}/kube-apiserver.yaml.bak"


@pytest.mark.parametrize("joined", [False, True], ids=["the first adoption", "a controller that joined"])
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


@pytest.mark.parametrize("joined", [False, True], ids=["the first adoption", "a controller that joined"])
def test_a_port_below_the_unprivileged_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool) -> None:
    """Before anything is derived from the static pods, of which nothing else is odd."""
    place = healthy_place(tmp_path, monkeypatch, adoption, new_controllers)
    place.hosts.commands["cat"] = CommandResult(0, "1024\n", "")
    at_443 = kubeadm_pod("kube-apiserver", {"secure-port": "443"})
    monkeypatch.setattr(adoption, "read_facts", lambda *_: kubeadm_facts(at_443))
    for name in FLAGS:
        pod = at_443 if name == "kube-apiserver" else kubeadm_pod(name)
        place.hosts.files[LAST, f"{MANIFESTS}/{name}.yaml"] = pod.manifest
    with pytest.raises(Blocked, match="kube-apiserver listens on port 443, which the chart's pods can't"):
        (place.adoption() if joined else adoption.adoption(place.folder, FrontEnd())).__enter__()


def test_a_proxy_that_only_the_controller_can_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the charts are rendered; the operator's own values may name another one."""
    place = healthy_place(tmp_path, monkeypatch, adoption)
    env = [{"name": "HTTPS_PROXY", "value": "http://127.0.0.1:3128"}]
    behind = kubeadm_facts(kubeadm_pod("kube-scheduler", container={"env": env}))
    for name in ("check_low_port", "check_advertised"):
        monkeypatch.setattr(adoption, name, lambda *_: None)
    monkeypatch.setattr(adoption, "read_facts", lambda *_: behind)
    monkeypatch.setattr(adoption, "with_single_files", lambda *_: behind)
    monkeypatch.setattr(adoption, "leaders_servers", lambda *_: ())
    with pytest.raises(Blocked, match="kube-scheduler's static pod has the variable HTTPS_PROXY"):
        adoption.adoption(place.folder, FrontEnd()).__enter__()
