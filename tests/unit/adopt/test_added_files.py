"""Static pods without a flag of kubeadm's, on controllers that may lack the flag's file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import FLAGS, PKI, controller_with_modes, kubeadm_facts, kubeadm_pod
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.added_files import check_added_files
from upgrader.adopt.derive import derive_values
from upgrader.adopt.facts import KubeadmFacts, StaticPod
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked

_FRONT_PROXY = ("proxy-client-cert-file", "proxy-client-key-file", "requestheader-client-ca-file")


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def _without(component: str, *flags: str, more: tuple[str, ...] = ()) -> StaticPod:
    pod = kubeadm_pod(component, words=more)
    words = pod.container["command"]
    kept = [word for word in words if word.removeprefix("--").partition("=")[0] not in flags]
    return kubeadm_pod(component, container={"command": kept})


def _check(
    helm: HelmAdapter, hosts: FakeHosts, known: KubeadmFacts, own: dict[str, dict[str, object]] | None = None
) -> None:
    derived = derive_values(known, ("10.0.0.1",), own or {}, helm, charts_folder())
    check_added_files(hosts, known.controllers, PKI, derived.changes)


@pytest.mark.parametrize(
    ("component", "flags", "path", "remedy"),
    [
        ("kube-apiserver", _FRONT_PROXY, f"{PKI}/front-proxy-client.crt", "`extraArgs` in values/kube-apiserver.yaml"),
        (
            "kube-controller-manager",
            ("requestheader-client-ca-file",),
            f"{PKI}/front-proxy-ca.crt",
            "`controllerManager.extraArgs` in values/kubernetes.yaml",
        ),
        (
            "kube-apiserver",
            ("service-account-key-file",),
            f"{PKI}/sa.pub",
            f"-in {PKI}/sa.key -pubout -out {PKI}/sa.pub",
        ),
        ("kube-scheduler", ("kubeconfig",), "/etc/kubernetes/scheduler.conf", "`scheduler.kubeconfig`"),
    ],
)
def test_a_file_that_only_the_chart_would_use_must_exist(
    helm: HelmAdapter, component: str, flags: tuple[str, ...], path: str, remedy: str
) -> None:
    """The chart's pod would wait for it forever, in the middle of the adoption: it is named before. A controller that
    has the file is adopted.
    """
    known = kubeadm_facts(_without(component, *flags))
    with pytest.raises(Blocked) as caught:
        _check(helm, controller_with_modes({}), known)
    assert caught.value.message.startswith(f"controller-1 has no file {path}: the chart starts {component} with --")
    assert caught.value.message.endswith("which its static pod doesn't have; nothing was changed")
    assert remedy in caught.value.remedy
    there = {FLAGS[component][flag]: "81a4 0 0" for flag in flags}
    _check(helm, controller_with_modes(there), known)


def test_a_flag_can_stay_away(helm: HelmAdapter) -> None:
    """As the error proposes: an empty flag is none, and no file is mounted for it. A static pod that was retired before
    says nothing of the controller.
    """
    known = kubeadm_facts(_without("kube-apiserver", *_FRONT_PROXY))
    _check(helm, FakeHosts(), known, {"kube-apiserver": {"extraArgs": dict.fromkeys(_FRONT_PROXY, "")}})
    (controller,) = known.controllers
    retired = replace(known, controllers=(replace(controller, active={}, adopted=controller.active),))
    _check(helm, controller_with_modes({}), retired)


def test_kubeadms_own_adds_none(helm: HelmAdapter) -> None:
    """No file is looked for: a static pod that runs has those of its flags. An audit policy isn't the chart's."""
    _check(helm, controller_with_modes({}), kubeadm_facts())


def test_an_external_signer_has_no_key_files(helm: HelmAdapter) -> None:
    """kube-apiserver refuses `--service-account-key-file` beside `--service-account-signing-endpoint`."""
    keys = ("service-account-key-file", "service-account-signing-key-file")
    signer = ("--service-account-signing-endpoint=/run/signer.sock",)
    known = kubeadm_facts(_without("kube-apiserver", *keys, more=signer))
    derived = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder())
    assert not {change.name for change in derived.changes} & {*keys, "service-account-signing-endpoint"}
    check_added_files(controller_with_modes({}), known.controllers, PKI, derived.changes)
