"""Static pods of kubeadm's that a kind of lab changes, and what is read of the processes that come of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from testkit.fakes.kube import FakeKube
from testkit.kinds.catalogue import KINDS
from testkit.kinds.kms_plugin import plugins_pod
from testkit.kinds.static_pods import changed_pod, words_of
from testkit.kinds.without_kube_proxy import service_proxy_pod
from testkit.lab_cluster import LabCluster
from testkit.versions import COMPONENTS
from upgrader.ports import Kind

_MANIFEST = """
metadata: {name: kube-apiserver}
spec:
  containers:
  - name: kube-apiserver
    command: [kube-apiserver, --authorization-mode=Node, --authorization-mode-not=x, --v=2]
    volumeMounts: [{name: certs, mountPath: /etc/ssl/certs}]
  volumes: [{name: certs, hostPath: {path: /etc/ssl/certs}}]
"""


def test_flags_are_replaced_and_left_out_and_the_folders_are_mounted() -> None:
    """Every other flag and volume stays, also one whose name begins in the same way; an empty value is a flag."""
    flags = {"authorization-mode": None, "v": "4", "empty": ""}
    pod = yaml.safe_load(changed_pod(_MANIFEST, flags, "/etc/kubernetes/own", "/run/own"))
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["kube-apiserver", "--authorization-mode-not=x", "--v=4", "--empty="]
    mounted = ["/etc/ssl/certs", "/etc/kubernetes/own", "/run/own"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == mounted
    assert len({each["name"] for each in pod["spec"]["volumes"]}) == 3
    assert pod["spec"]["volumes"][1]["hostPath"] == {"path": "/etc/kubernetes/own", "type": "DirectoryOrCreate"}
    assert container["volumeMounts"][1]["readOnly"] is True


def test_without_a_folder_no_volume_is_added() -> None:
    """Only flags were asked for."""
    before, after = yaml.safe_load(_MANIFEST), yaml.safe_load(changed_pod(_MANIFEST, {"v": "4"}))
    assert after["spec"]["volumes"] == before["spec"]["volumes"]


@pytest.mark.parametrize("running", [0, 1, 2])
def test_each_processs_words_are_read_apart(running: int, tmp_path: Path) -> None:
    """While a pod is replaced there are two; none of one is taken for the other's. One that has ended is left out."""
    (tmp_path / "pidof").write_text(f"#!/bin/sh\necho {' '.join(['999999999', *['self'] * running])}\n")
    (tmp_path / "pidof").chmod(0o755)

    def on_controller(script: str) -> str:
        shell = ["sh", "-c", f"PATH={tmp_path}:$PATH; {script}"]
        return subprocess.run(shell, check=True, capture_output=True, text=True).stdout

    # /proc/self is the shell that opens it.
    found = words_of(cast("LabCluster", SimpleNamespace(on_controller=on_controller)), "x")
    assert len(found) == running and all({"sh", "-c"} < words for words in found)


def test_the_other_service_proxy_is_no_kube_proxy() -> None:
    """Neither by its name nor by its container's, by which `upgrader` knows its own."""
    pod = yaml.safe_load(service_proxy_pod("registry.k8s.io/kube-proxy:v1.36.3"))
    (container,) = pod["spec"]["containers"]
    assert {pod["metadata"]["name"], container["name"], *pod["metadata"]["labels"].values()} == {"service-proxy"}
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert mounted == {each["hostPath"]["path"] for each in pod["spec"]["volumes"]}
    assert container["command"][1].removeprefix("--config=").rpartition("/")[0] in mounted


def test_a_kms_plugin_has_its_socket_and_key_in_folders_of_the_controller() -> None:
    """Both outlive its container, and the socket is where kube-apiserver looks for it."""
    pod = yaml.safe_load(plugins_pod("upgrader.lab/kms-plugin:x"))
    (container,) = pod["spec"]["containers"]
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert mounted == {each["hostPath"]["path"] for each in pod["spec"]["volumes"]}
    assert {path.rpartition("/")[0] for path in container["command"][1:]} == mounted


def test_a_version_that_nothing_upgrades_does_not_count(tmp_path: Path) -> None:
    """The kind without kube-proxy is healthy at the new version though another program has the old one's image."""
    (kind,) = (each for each in KINDS if each.name == "no-kube-proxy")
    cluster = LabCluster("x", tmp_path, tmp_path, components=kind.components)
    cluster.__dict__["kube"] = _kube("v1.37.1", other="v1.36.3")
    assert set(cluster.versions().values()) == {"v1.37.1"}
    every = LabCluster("x", tmp_path, tmp_path)
    every.__dict__["kube"] = cluster.kube
    assert every.versions()["kube-proxy"] == "v1.36.3"


def _kube(version: str, other: str) -> FakeKube:
    """A control plane at a version, and a pod with kube-proxy's image at another one."""
    kube = FakeKube()
    kube.raw_answers["/version"] = f'{{"gitVersion": "{version}"}}'
    for name in COMPONENTS:
        tag = other if name == "kube-proxy" else version
        pod = {
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"containers": [{"name": name, "image": f"registry.k8s.io/{name}:{tag}"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        kube.put(Kind("v1", "pods"), pod)
    return kube
