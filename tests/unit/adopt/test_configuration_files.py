"""Flags that name a configuration file, and what that file names: taken over with all of it, or refused by name.

Each row is a cluster as an operator configures it by kubeadm's `extraArgs` and `extraVolumes`, on one controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_pods import PKI, Volume, controller_with_modes, kubeadm_facts, kubeadm_pod, volume
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.derive import derive_values
from upgrader.adopt.facts import KubeadmFacts
from upgrader.adopt.referred_files import with_single_files
from upgrader.adopt.static_pod_checks import check_pods
from upgrader.adopt.values import rendered_flags
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked
from upgrader.gates.manifest_workloads import pod_spec
from upgrader.model.release import ReleaseSpec

_OWN = "/etc/kubernetes/own"
_API, _MANAGER = "kube-apiserver", "kube-controller-manager"
_SOCKET, _ROOTS_SOCKET, _FOLDER = "c1ed 65532 65532", "c1ed 0 0", "41ed 0 0"
_KMS = "resources: [{providers: [{kms: {apiVersion: v2, name: x, endpoint: 'unix:///run/kms/kms.sock'}}]}]"
_EGRESS = (
    "egressSelections: [{name: cluster, connection: {proxyProtocol: GRPC, transport: {uds: "
    "{udsName: /run/konnectivity/server.socket}}}}]"
)
_WEBHOOK = (
    "authorizers: [{type: Webhook, name: x, webhook: {connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}}}]"
)


@dataclass(frozen=True)
class _Case:
    """`flags` of a component, its volumes, and the controller's files: path → content, and path → mode and owner."""

    flags: Mapping[str, str]
    volumes: tuple[Volume, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    component: str = _API
    spec: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> tuple[FakeHosts, KubeadmFacts]:
        """The controller."""
        hosts = controller_with_modes(self.modes)
        hosts.files.update({("controller-1", path): text.encode() for path, text in self.files.items()})
        pod = kubeadm_pod(self.component, self.flags, *self.volumes, spec=self.spec)
        if "authorization-config" in self.flags:
            # kubeadm leaves it out then: kube-apiserver takes one of the two.
            words = [word for word in pod.container["command"] if not word.startswith("--authorization-mode")]
            pod = kubeadm_pod(self.component, {}, *self.volumes, container={"command": words})
        return hosts, kubeadm_facts(pod)


def _by_file(flag: str, text: str, *more: Volume, **other: Any) -> _Case:
    """A flag that names a file of this text in a folder of its own."""
    path = f"{_OWN}/config.yaml"
    files = {path: text, **other.pop("files", {})}
    return _Case({flag: path}, (volume("own", _OWN), *more), files, **other)


_TAKEN_OVER = {
    "authorization-config": (
        _by_file("authorization-config", _WEBHOOK % f"{_OWN}/webhook.conf", files={f"{_OWN}/webhook.conf": "{}"}),
        [_OWN],
    ),
    "authorization-config with a kubeconfig among the certificates": (
        _by_file(
            "authorization-config",
            _WEBHOOK % f"{PKI}/webhook.conf",
            files={
                f"{PKI}/webhook.conf": "users: [{user: {client-key: webhook.key}}]",
                f"{PKI}/webhook.key": "-----BEGIN X",
            },
        ),
        [_OWN, f"{PKI}/webhook.conf", f"{PKI}/webhook.key"],
    ),
    "authentication-config": (
        _by_file("authentication-config", "jwt: [{issuer: {url: 'https://x', audiences: [a]}}]"),
        [_OWN],
    ),
    "tracing-config-file": (_by_file("tracing-config-file", "{endpoint: localhost:4317}"), [_OWN]),
    "egress-selector-config-file": (
        _by_file(
            "egress-selector-config-file",
            _EGRESS,
            volume("uds", "/run/konnectivity", writable=True),
            modes={"/run/konnectivity": _FOLDER, "/run/konnectivity/server.socket": _ROOTS_SOCKET},
        ),
        [_OWN, "/run/konnectivity"],
    ),
    "KMS v2 as a static pod": (
        _by_file(
            "encryption-provider-config",
            _KMS,
            volume("kms", "/run/kms", writable=True),
            modes={"/run/kms": _FOLDER, "/run/kms/kms.sock": _ROOTS_SOCKET},
        ),
        [_OWN, "/run/kms"],
    ),
    "external CA": (
        _Case(dict.fromkeys(("cluster-signing-cert-file", "cluster-signing-key-file"), ""), component=_MANAGER),
        [PKI],
    ),
    "cloud-provider external": (
        _Case({"cloud-provider": "external", "configure-cloud-routes": "false"}, component=_MANAGER),
        [PKI],
    ),
}


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


@pytest.mark.parametrize("name", _TAKEN_OVER)
def test_what_is_taken_over(helm: HelmAdapter, name: str) -> None:
    """The chart's pod has each flag, and sees the files and sockets behind it."""
    case, mounted = _TAKEN_OVER[name]
    known = with_single_files(*case.facts(), PKI)
    release = "kubernetes" if case.component == _MANAGER else _API
    values = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values[release]
    rendered = helm.render(ReleaseSpec(release, "kube-system", charts_folder() / release, values), offline=True)
    assert (
        rendered_flags(rendered, case.component).items() >= {key: (value,) for key, value in case.flags.items()}.items()
    )
    containers = pod_spec(rendered, case.component)["containers"]
    (mounts,) = (each["volumeMounts"] for each in containers if each["name"] == case.component)
    assert {each["mountPath"] for each in mounts} >= set(mounted)


_REFUSED = {
    "KMS v2 as a sidecar": (
        _Case({}, spec={"containers": [kubeadm_pod(_API).container, {"name": "kms-plugin", "image": "kms:v2"}]}),
        "kube-apiserver's static pod on controller-1 has another container, kms-plugin",
    ),
    "KMS v2 whose socket is closed": (
        _by_file(
            "encryption-provider-config",
            _KMS,
            volume("kms", "/run/kms", writable=True),
            modes={"/run/kms": _FOLDER, "/run/kms/kms.sock": _SOCKET},
        ),
        r"controller-1: the chart's kube-apiserver can't read /run/kms/kms.sock \(socket, mode 0755, user 65532\)",
    ),
    "egress-selector-config-file whose socket is closed": (
        _by_file(
            "egress-selector-config-file",
            _EGRESS,
            volume("uds", "/run/konnectivity", writable=True),
            modes={"/run/konnectivity": "41c0 65532 65532", "/run/konnectivity/server.socket": _ROOTS_SOCKET},
        ),
        r"kube-apiserver can't read /run/konnectivity \(mode 0700, user 65532\)",
    ),
    "a socket among the certificates": (
        _by_file(
            "encryption-provider-config",
            _KMS.replace("/run/kms", PKI),
            modes={f"{PKI}/kms.sock": _ROOTS_SOCKET},
        ),
        rf"{_OWN}/config.yaml \(resources\[0\].providers\[0\].kms.endpoint\) names {PKI}/kms.sock, which is a socket",
    ),
    "authorization-config whose kubeconfig is closed": (
        _by_file(
            "authorization-config",
            _WEBHOOK % f"{_OWN}/webhook.conf",
            files={f"{_OWN}/webhook.conf": "{}"},
            modes={f"{_OWN}/webhook.conf": "8180 65532 65532"},
        ),
        rf"kube-apiserver can't read {_OWN}/webhook.conf \(mode 0600, user 65532\)",
    ),
}


def _checked(hosts: FakeHosts, known: KubeadmFacts) -> None:
    """As `adopt` does it, before the charts are rendered."""
    check_pods(FakeKube(), hosts, known.controllers)
    with_single_files(hosts, known, PKI)


@pytest.mark.parametrize("name", _REFUSED)
def test_what_is_refused(name: str) -> None:
    """Before anything changes, by the name of the file, the socket or the container, with a way on."""
    case, words = _REFUSED[name]
    with pytest.raises(Blocked, match=words) as caught:
        _checked(*case.facts())
    assert caught.value.remedy
