"""Configuration that is kept among the certificates, where kubeadm's static pod needs no volume for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import PKI, kubeadm_facts, kubeadm_pod
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.derive import derive_values
from upgrader.adopt.referred_files import referred_files
from upgrader.config.charts import charts_folder

_ADMISSION = f"{PKI}/admission.yaml"
_FILES = {
    _ADMISSION: "plugins:\n- {name: ImagePolicyWebhook, path: image-policy.yaml}\n- {name: X, path: /etc/other.yaml}\n",
    f"{PKI}/image-policy.yaml": f"imagePolicy: {{kubeConfigFile: {PKI}/policy/webhook.conf, allowTTL: 50}}\n",
    f"{PKI}/policy/webhook.conf": "clusters: [{cluster: {server: 'https://x', certificate-authority: ca.pem}}]\n",
    f"{PKI}/policy/ca.pem": "-----BEGIN CERTIFICATE-----\n",
    f"{PKI}/ca.key": "-----BEGIN RSA PRIVATE KEY-----\n",
    f"{PKI}/audit.yaml": "rules: [{level: None, users: [../ca.key, missing.yaml, a word]}]\n",
}
_FOUND = (f"{PKI}/image-policy.yaml", f"{PKI}/policy/ca.pem", f"{PKI}/policy/webhook.conf")


@pytest.fixture
def hosts() -> FakeHosts:
    """A controller with these files."""
    found = FakeHosts()
    found.files.update({("controller-1", path): text.encode() for path, text in _FILES.items()})
    return found


def test_what_a_file_names_is_followed(hosts: FakeHosts) -> None:
    """From the flag's file to a kubeconfig and its CA, by absolute and by relative paths; and nothing else is."""
    api = kubeadm_pod(
        "kube-apiserver", {"admission-control-config-file": _ADMISSION, "audit-policy-file": f"{PKI}/audit.yaml"}
    )
    assert referred_files(hosts, kubeadm_facts(api).controllers, PKI) == _FOUND


def test_a_plain_control_plane_refers_to_none(hosts: FakeHosts) -> None:
    """Certificates and keys name no files; an adopted controller has no static pod to ask."""
    assert referred_files(hosts, kubeadm_facts().controllers, PKI) == ()
    adopted = tuple(replace(each, active={}) for each in kubeadm_facts().controllers)
    assert referred_files(hosts, adopted, PKI) == ()


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def test_they_are_mounted_one_by_one(helm: HelmAdapter) -> None:
    """Beside them are the keys of the cluster's CAs, which kube-apiserver doesn't get."""
    api = kubeadm_pod("kube-apiserver", {"admission-control-config-file": _ADMISSION})
    known = replace(kubeadm_facts(api), referred_files=_FOUND)
    values = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values["kube-apiserver"]
    assert [mount["mountPath"] for mount in values["extraVolumeMounts"]] == list(_FOUND)
    assert [volume["hostPath"]["path"] for volume in values["extraVolumes"]] == list(_FOUND)
