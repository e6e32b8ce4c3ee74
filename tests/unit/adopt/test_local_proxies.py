"""A proxy that only the controller itself can reach."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.adopt.kubeadm_pods import kubeadm_facts, kubeadm_pod
from upgrader.adopt.local_proxies import check_local_proxies
from upgrader.errors import Blocked

_SECTIONS = {"kube-controller-manager": "controllerManager", "kube-scheduler": "scheduler"}


def _check(component: str, name: str, url: str, values: dict[str, Any] | None = None) -> None:
    """Of a static pod with this variable."""
    pod = kubeadm_pod(component, container={"env": [{"name": name, "value": url}]})
    check_local_proxies(kubeadm_facts(pod).controllers, values or {})


@pytest.mark.parametrize("component", ["kube-controller-manager", "kube-scheduler"])
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy"])
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:3128", "localhost:3128", "http://user:secret@[::1]:3128", "socks5://127.0.0.53"]
)
def test_a_proxy_at_a_loopback_address_is_refused(component: str, name: str, url: str) -> None:
    """A cloud's API, or a webhook, would be asked by way of nothing; a password in the URL is not shown."""
    with pytest.raises(Blocked, match=f"controller-1: {component}'s static pod has the variable {name}") as no:
        _check(component, name, url)
    assert "nothing was changed" in no.value.message and "secret" not in no.value.message + no.value.remedy
    assert f"`{_SECTIONS[component]}.extraEnv.{name}`" in no.value.remedy
    for chosen in ("http://10.0.0.1:3128", ""):
        _check(component, name, url, {_SECTIONS[component]: {"extraEnv": {name: chosen}}})


@pytest.mark.parametrize(
    ("component", "name", "url"),
    [
        ("kube-apiserver", "HTTPS_PROXY", "http://127.0.0.1:3128"),
        ("kube-scheduler", "HTTPS_PROXY", "http://proxy.example:3128"),
        ("kube-scheduler", "HTTPS_PROXY", ""),
        ("kube-scheduler", "NO_PROXY", "127.0.0.1,localhost"),
    ],
)
def test_what_pods_can_use(component: str, name: str, url: str) -> None:
    """The chart's kube-apiserver shares the controller's network; a list of what needs no proxy names no proxy."""
    _check(component, name, url)
