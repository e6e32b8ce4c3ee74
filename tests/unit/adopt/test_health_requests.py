"""HAProxy's anonymous check, and a kube-apiserver whose authentication configuration refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import PKI, kubeadm_facts, kubeadm_pod, volume
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.derive import derive_values
from upgrader.adopt.health_requests import check_health_requests
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked

_FILE = "/etc/kubernetes/own/authentication.yaml"
_FLAG = {"authentication-config": _FILE}
_TOKENS = {"token-auth-file": "/etc/kubernetes/own/tokens.csv"}
_OFF = "anonymous: {enabled: false}"
_SOME = "anonymous: {enabled: true, conditions: [%s]}"


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def _checked(helm: HelmAdapter, flags: dict[str, str], text: str, own: dict[str, object] | None = None) -> None:
    """What `adopt` finds of a controller with these flags, and this authentication configuration."""
    hosts = FakeHosts()
    hosts.files["controller-1", "/srv/own/authentication.yaml"] = text.encode()
    known = kubeadm_facts(kubeadm_pod("kube-apiserver", flags, volume("own", "/srv/own", at="/etc/kubernetes/own")))
    derived = derive_values(known, ("10.0.0.1",), {"kube-apiserver": own or {}}, helm, charts_folder())
    check_health_requests(hosts, known.controllers, derived.values["kube-apiserver"])


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (_OFF, "/livez and /readyz"),
        ("anonymous: {}", "/livez and /readyz"),
        (_SOME % "{path: /healthz}, {path: /readyz}", "/livez"),
        (_SOME % "{path: /livez}, {path: /readyz/}", "/readyz"),
        ("anonymous: [", "/livez and /readyz"),
        ("anonymous: off", "/livez and /readyz"),
    ],
)
def test_a_check_that_could_never_succeed_is_refused(helm: HelmAdapter, text: str, paths: str) -> None:
    """Before anything changes: with a token file of the operator's own, HAProxy's check is anonymous."""
    words = rf"^controller-1: /srv/own/authentication.yaml .* rejects anonymous requests for {paths}. .*nothing was"
    with pytest.raises(Blocked, match=words) as caught:
        _checked(helm, _FLAG | _TOKENS, text)
    assert "/livez" in caught.value.remedy and "--token-auth-file" in caught.value.remedy


def test_so_it_is_without_a_token_by_the_operators_values(helm: HelmAdapter) -> None:
    """`health.token: false` of their own, as scanners object to the chart's token file, is the same."""
    with pytest.raises(Blocked, match="rejects anonymous requests for /livez and /readyz"):
        _checked(helm, _FLAG, _OFF, {"health": {"token": False}})


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (_FLAG, _OFF),  # the chart's check authenticates
        (_FLAG | _TOKENS, "jwt: []"),
        (_FLAG | _TOKENS, ""),
        (_FLAG | _TOKENS, "anonymous: {enabled: true}"),
        (_FLAG | _TOKENS, _SOME % "{path: /livez}, {path: /readyz}, {path: /healthz}"),
        (_TOKENS, _OFF),
    ],
)
def test_a_check_that_is_answered_is_taken_over(helm: HelmAdapter, flags: dict[str, str], text: str) -> None:
    """With a token, or where the health endpoints answer anonymous requests."""
    _checked(helm, flags, text)


_ALL = {"authorization-mode": "AlwaysAllow"}


@pytest.mark.parametrize("modes", ["AlwaysAllow", "Node,AlwaysAllow", ""])
@pytest.mark.parametrize(("flags", "text"), [({}, ""), (_FLAG, "jwt: []")])
def test_where_all_requests_are_authorized_anonymous_ones_are_refused(
    helm: HelmAdapter, flags: dict[str, str], text: str, modes: str
) -> None:
    """kube-apiserver turns them off by itself then, which no flag says: HAProxy's check would never succeed."""
    words = "^controller-1: with --authorization-mode=AlwaysAllow, .* rejects anonymous requests"
    with pytest.raises(Blocked, match=words) as caught:
        _checked(helm, flags | _TOKENS | {"authorization-mode": modes}, text)
    assert "nothing was changed" in caught.value.message and "remove --token-auth-file" in caught.value.remedy


def test_so_it_is_without_the_flag_as_that_is_its_default(helm: HelmAdapter) -> None:
    """The chart's own modes would take clients' rights from them, so the default is kept."""
    pod = kubeadm_pod("kube-apiserver", _TOKENS, volume("own", "/srv/own", at="/etc/kubernetes/own"))
    plain = [word for word in pod.container["command"] if not word.startswith("--authorization-mode")]
    known = kubeadm_facts(kubeadm_pod("kube-apiserver", {}, container={**pod.container, "command": plain}))
    derived = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder())
    with pytest.raises(Blocked, match="with --authorization-mode=AlwaysAllow"):
        check_health_requests(FakeHosts(), known.controllers, derived.values["kube-apiserver"])


@pytest.mark.parametrize(
    ("flags", "text", "own"),
    [
        (_ALL, "", {}),  # the chart's check authenticates
        (_ALL | _TOKENS | _FLAG, "anonymous: {enabled: true}", {}),
        (_ALL | _TOKENS | _FLAG, _SOME % "{path: /livez}, {path: /readyz}", {}),
        (_ALL | _TOKENS, "", {"extraArgs": {"authorization-mode": "Node,RBAC"}}),
        (_TOKENS, "", {}),
    ],
)
def test_a_check_that_is_answered_where_all_requests_may_be_authorized(
    helm: HelmAdapter, flags: dict[str, str], text: str, own: dict[str, object]
) -> None:
    """With a token, by a file, which counts before the modes, or by modes of the operator's own."""
    _checked(helm, flags, text, own)


@pytest.mark.parametrize("off", ["false", "0", "F"])
def test_tokens_of_ones_own_without_anonymous_requests_are_refused(helm: HelmAdapter, off: str) -> None:
    """The chart's two errors named each other's remedy: a token that it can't have, and no token at all."""
    flags = {"anonymous-auth": off, "token-auth-file": f"{PKI}/tokens.csv"}
    known = kubeadm_facts(kubeadm_pod("kube-apiserver", flags))
    with pytest.raises(Blocked, match=f"on controller-1 has --token-auth-file and --anonymous-auth={off}: ") as caught:
        derive_values(known, ("10.0.0.1",), {}, helm, charts_folder())
    assert "On every controller, remove either --token-auth-file" in caught.value.remedy
    for name in flags:
        alone = {key: value for key, value in flags.items() if key != name}
        derive_values(kubeadm_facts(kubeadm_pod("kube-apiserver", alone)), ("10.0.0.1",), {}, helm, charts_folder())


def test_anonymous_requests_that_the_values_allow(helm: HelmAdapter) -> None:
    """The operator's own flags win over the static pod's, here as elsewhere: the check is anonymous."""
    flags = {"anonymous-auth": "false", "token-auth-file": f"{PKI}/tokens.csv"}
    own = {"kube-apiserver": {"extraArgs": {"anonymous-auth": "true"}}}
    known = kubeadm_facts(kubeadm_pod("kube-apiserver", flags))
    derived = derive_values(known, ("10.0.0.1",), own, helm, charts_folder())
    assert derived.values["kube-apiserver"]["extraArgs"]["anonymous-auth"] == "true"
