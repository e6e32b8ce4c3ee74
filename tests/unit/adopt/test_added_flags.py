"""Which flags an adoption adds by itself: an undo gives them up again, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_pods import FLAGS, PKI, kubeadm_facts, kubeadm_pod
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.added_flags import added_flags
from upgrader.adopt.facts import ControllerFacts
from upgrader.built_in_files import charts_folder
from upgrader.model.cluster import Host
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind

_VERSION = KubernetesVersion.parse("v1.36.3")


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def _retired(*flags: str, without: str = "") -> list[ControllerFacts]:
    """A controller whose kube-controller-manager had only these flags."""
    name = "kube-controller-manager"
    (controller,) = kubeadm_facts(kubeadm_pod(name, container={"command": [name, *flags]})).controllers
    pods = {component: pod for component, pod in controller.active.items() if component != without}
    return [ControllerFacts(controller.host, {}, pods)]


def _kube(text: str) -> FakeKube:
    kube = FakeKube()
    meta = {"name": "kubeadm-config", "namespace": "kube-system"}
    kube.put(Kind("v1", "configmaps"), {"metadata": meta, "data": {"ClusterConfiguration": text}})
    return kube


@pytest.mark.parametrize(
    ("text", "folder"),
    [("certificatesDir: /etc/kubernetes/ssl", "/etc/kubernetes/ssl"), ("a: [", PKI), ("{}", PKI)],
    ids=["another folder", "a record that can't be read", "none named"],
)
def test_what_the_chart_has_and_the_manifest_lacks(helm: HelmAdapter, text: str, folder: str) -> None:
    """With the files of kubeadm's folder; a flag that the manifest has with another value is none of them."""
    added = added_flags(_kube(text), helm, _retired("--leader-elect=false"), _VERSION, charts_folder())
    assert (
        added["kube-controller-manager"].items()
        >= {
            "root-ca-file": (f"{folder}/ca.crt",),
            "use-service-account-credentials": ("true",),
        }.items()
    )
    assert "leader-elect" not in added["kube-controller-manager"]
    assert not added["kube-scheduler"].keys() & FLAGS["kube-scheduler"].keys()


def test_a_controller_that_joined_again_first_in_the_inventory(helm: HelmAdapter) -> None:
    """Its new manifest has kubeadm's flags, and stays: what the retired ones of others lack was added all the same."""
    (retired,) = _retired("--leader-elect=true")
    (new,) = kubeadm_facts().controllers
    second = replace(retired, host=Host("controller-2", "10.0.0.2"))
    alone = added_flags(FakeKube(), helm, [retired], _VERSION, charts_folder())
    both = added_flags(FakeKube(), helm, [new, second], _VERSION, charts_folder())
    assert both["kube-controller-manager"] == alone["kube-controller-manager"]


def test_a_component_without_a_manifest(helm: HelmAdapter) -> None:
    """Nothing is known of what an adoption would have made of it."""
    assert added_flags(FakeKube(), helm, _retired(without="kube-scheduler"), _VERSION, charts_folder()) == {}
