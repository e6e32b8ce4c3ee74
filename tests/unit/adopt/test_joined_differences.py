"""What a controller that joined loses to the releases is told, part by part."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.unit.adopt.kubeadm_pods import kubeadm_pod, volume
from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.joined_differences import parts_that_go
from upgrader.model.cluster import Host

PKI = "/etc/kubernetes/pki"


def _found(static: StaticPod, **chart: Any) -> list[str]:
    """What is said of it, beside a release whose pod has all of kubeadm's, with changes of its container."""
    release = kubeadm_pod("kube-apiserver", container=chart)
    new = ControllerFacts(Host("c", "10.0.0.2"), {"kube-apiserver": static}, {})
    found = parts_that_go([new], ["", _deployment(release)], PKI)
    return list(found.get("kube-apiserver on c", ()))


def _deployment(release: StaticPod) -> str:
    """A manifest whose pod is this one."""
    template = {"metadata": {"labels": release.pod["metadata"]["labels"]}, "spec": release.pod["spec"]}
    manifest = {"kind": "Deployment", "metadata": {"name": release.component}, "spec": {"template": template}}
    return yaml.safe_dump(manifest)


def test_nothing_is_said_where_nothing_goes() -> None:
    """kubeadm has made it as the release has it."""
    assert _found(kubeadm_pod("kube-apiserver")) == []


def test_each_part_that_goes_is_named() -> None:
    """Flags with their values; of variables the name alone, as a value may be a secret."""
    env = [{"name": "PROXY", "value": "http://user:password@proxy"}, {"name": "TZ", "value": "UTC"}]
    static = kubeadm_pod(
        "kube-apiserver",
        {"profiling": "false"},
        volume("audit", "/var/log/audit", writable=True),
        container={"env": env},
    )
    manifest = static.pod
    manifest["metadata"]["labels"]["team"] = "platform"
    static = StaticPod(static.component, yaml.safe_dump(manifest).encode(), static.flags, static.image)
    assert _found(static, env=[{"name": "TZ", "value": "UTC"}]) == [
        "--profiling=false",
        "the variable PROXY",
        "the volume /var/log/audit at /var/log/audit (writable)",
        "the label team=platform",
    ]


_ETCD = "/etc/ssl/etcd/ssl"
_VOLUME = f"the volume {_ETCD} at {_ETCD}"
_KEYS = {"etcd-cafile": f"{_ETCD}/ca.pem", "etcd-keyfile": f"{_ETCD}/node.pem"}


@pytest.mark.parametrize(("files", "said"), [(["ca.pem", "node.pem"], []), (["ca.pem"], [_VOLUME]), ([], [_VOLUME])])
def test_a_folder_whose_files_the_release_mounts_does_not_go(files: list[str], said: list[str]) -> None:
    """Kubespray's folder of etcd's certificates, which is closed: the release has what flags name in it, one by one."""
    single = [volume(f"file-{number}", f"{_ETCD}/{name}", "File") for number, name in enumerate(files)]
    release = kubeadm_pod("kube-apiserver", _KEYS, *single)
    static = kubeadm_pod("kube-apiserver", _KEYS, volume("etcd-certs-0", _ETCD))
    new = ControllerFacts(Host("c", "10.0.0.2"), {"kube-apiserver": static}, {})
    found = parts_that_go([new], [_deployment(release)], PKI).get("kube-apiserver on c", ())
    assert list(found) == said


def test_a_folder_that_the_release_may_not_write_goes() -> None:
    """It shows the audit log's file, but another one can't be made there."""
    flags = {"audit-log-path": "/var/log/audit/audit.log"}
    release = kubeadm_pod("kube-apiserver", flags, volume("audit", "/var/log/audit"))
    static = kubeadm_pod("kube-apiserver", flags, volume("audit", "/var/log/audit", writable=True))
    new = ControllerFacts(Host("c", "10.0.0.2"), {"kube-apiserver": static}, {})
    found = parts_that_go([new], [_deployment(release)], PKI)
    assert found["kube-apiserver on c"] == ("the volume /var/log/audit at /var/log/audit (writable)",)


def test_flags_that_the_hand_over_changes_are_no_loss() -> None:
    """The release's own address and port are what the adoption is about."""
    assert _found(kubeadm_pod("kube-apiserver", {"advertise-address": "10.0.0.2", "bind-address": "::"})) == []
