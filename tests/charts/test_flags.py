"""The flags that the built-in charts give Kubernetes' components."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.conftest import Render
from tests.charts.test_kube_apiserver import ONE as APISERVER
from tests.charts.test_kubernetes import VALUES as KUBERNETES
from upgrader.contract.flags import arguments_in, command_line
from upgrader.model.version import OLDEST
from upgrader.preflight.flag_lifecycle import known_flags, known_versions

WORKLOADS = [
    ("kube-apiserver", APISERVER, "Deployment", "kube-apiserver"),
    ("kubernetes", KUBERNETES, "Deployment", "kube-controller-manager"),
    ("kubernetes", KUBERNETES, "Deployment", "kube-scheduler"),
    ("kubernetes", KUBERNETES, "DaemonSet", "kube-proxy"),
]


@pytest.mark.parametrize(("chart", "values", "kind", "name"), WORKLOADS)
def test_every_version_knows_the_flags_of_the_charts(
    render: Render, chart: str, values: dict[str, Any], kind: str, name: str
) -> None:
    """Every minor that is supported; and none warns of a flag."""
    container = render(chart, values).container(kind, name, name)
    given = [each for each in arguments_in(command_line(container)) if each.name]
    assert given
    for version in known_versions().values():
        for flag in given if version >= OLDEST else ():
            known = known_flags()[name, flag.name]
            assert known.known_by(version) and not known.deprecated_by(version), f"{version}: --{flag.name}"


@pytest.mark.parametrize(("chart", "values", "kind", "name"), WORKLOADS)
def test_components_emulate_the_older_minor_that_is_given(
    render: Render, chart: str, values: dict[str, Any], kind: str, name: str
) -> None:
    """kube-proxy has no such flag; extra flags win; without the value, the manifest is what it was before."""
    container = render(chart, {**values, "emulatedVersion": "1.36"}).container(kind, name, name)
    given = "--emulated-version=1.36" in container.get("args", ())
    assert given is (name != "kube-proxy")
    assert render(chart, {**values, "emulatedVersion": ""}).text == render(chart, values).text


def test_flags_that_are_empty_stay(render: Render) -> None:
    """kubeadm's external CA mode gives controller-manager an empty `--cluster-signing-cert-file`: no default."""
    values = {**KUBERNETES, "controllerManager": {"extraArgs": {"cluster-signing-cert-file": ""}}}
    manager = "kube-controller-manager"
    arguments = render("kubernetes", values).container("Deployment", manager, manager)["args"]
    assert "--cluster-signing-cert-file=" in arguments
    values = {**APISERVER, "extraArgs": {"requestheader-allowed-names": ""}}
    container = render("kube-apiserver", values).container("Deployment", "kube-apiserver", "kube-apiserver")
    assert "--requestheader-allowed-names=" in container["args"]


def test_an_authorization_config_takes_the_place_of_the_modes(render: Render) -> None:
    """kube-apiserver ends at once with both flags."""
    values = {**APISERVER, "extraArgs": {"authorization-config": "/etc/kubernetes/authorization.yaml"}}
    container = render("kube-apiserver", values).container("Deployment", "kube-apiserver", "kube-apiserver")
    given = [word.partition("=")[0] for word in container["args"]]
    assert "--authorization-config" in given and "--authorization-mode" not in given


@pytest.mark.parametrize(
    ("servers", "tls"),
    [
        (["http://10.0.0.9:2379", "http://10.0.0.8:2379"], False),
        (["http://10.0.0.9:2379", "https://10.0.0.8:2379"], True),
        (["https://127.0.0.1:2379"], True),
    ],
)
def test_an_etcd_without_tls_has_no_certificates(render: Render, servers: list[str], tls: bool) -> None:
    """kubeadm gives no flags for certificates then, and their files would keep the pod from starting."""
    values = {**APISERVER, "etcd": {"servers": servers}}
    container = render("kube-apiserver", values).container("Deployment", "kube-apiserver", "kube-apiserver")
    flags = {f"--etcd-{name}" for name in ("cafile", "certfile", "keyfile")}
    assert flags & {word.partition("=")[0] for word in container["args"]} == (flags if tls else set())
    assert any("etcd" in mount["mountPath"] for mount in container["volumeMounts"]) is tls


def test_variables_of_kube_proxy(render: Render) -> None:
    """kubeadm copies a proxy's variables there, where it is behind one."""
    values = {**KUBERNETES, "kubeProxy": {**KUBERNETES["kubeProxy"], "extraEnv": {"NO_PROXY": "10.0.0.0/8"}}}
    container = render("kubernetes", values).container("DaemonSet", "kube-proxy", "kube-proxy")
    assert {"name": "NO_PROXY", "value": "10.0.0.0/8"} in container["env"]


@pytest.mark.parametrize(("chart", "values", "kind", "name"), WORKLOADS[:2])
def test_folders_with_public_certificates_can_be_left_out(
    render: Render, chart: str, values: dict[str, Any], kind: str, name: str
) -> None:
    """No kubelet can make one that is missing in a read-only /usr, and the pod would never start."""
    container = render(chart, {**values, "caFolders": ["/etc/ssl/certs"]}).container(kind, name, name)
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert "/etc/ssl/certs" in paths and not {each for each in paths if "ca-certificates" in each}
