"""A proxy that only the controller itself can reach."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.adopt.kubeadm_pods import kubeadm_facts, kubeadm_pod
from upgrader.adopt.local_proxies import check_local_proxies
from upgrader.errors import Blocked

_SECTIONS = {"kube-controller-manager": "controllerManager", "kube-scheduler": "scheduler"}


def _check(component: str, name: str, url: str, values: dict[str, Any] | None = None, **more: str) -> None:
    """Of a static pod with these variables."""
    env = [{"name": each, "value": value} for each, value in {name: url, **more}.items()]
    pod = kubeadm_pod(component, container={"env": env})
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
        ("kube-scheduler", "HTTPS_PROXY", "http://[::1:3128"),
        ("kube-scheduler", "HTTPS_PROXY", "http://[127.0.0.1]x:3128"),
    ],
)
def test_what_pods_can_use(component: str, name: str, url: str) -> None:
    """The chart's kube-apiserver shares the controller's network; a list of what needs no proxy names no proxy, and
    Go's programs pass over a URL that can't be read.
    """
    _check(component, name, url)


@pytest.mark.parametrize(
    ("more", "values", "used"),
    [
        ({"NO_PROXY": "10.0.0.0/8, *"}, {}, False),
        ({"no_proxy": "*"}, {}, False),
        ({"NO_PROXY": "10.0.0.0/8", "no_proxy": "*"}, {}, True),
        ({"NO_PROXY": "127.0.0.0/8,.svc,10.0.0.1:6443"}, {}, True),
        ({}, {"NO_PROXY": "*"}, False),
        ({"NO_PROXY": "*"}, {"NO_PROXY": ".svc"}, True),
        ({"HTTPS_PROXY": "http://proxy.example:3128"}, {}, False),
        ({}, {"HTTPS_PROXY": "http://proxy.example:3128"}, False),
        ({"HTTPS_PROXY": "http://proxy.example:3128"}, {"HTTPS_PROXY": ""}, True),
    ],
)
def test_a_proxy_that_is_used(more: dict[str, str], values: dict[str, str], used: bool) -> None:
    """As Go's programs choose it, in the chart's pod: what is written in capitals goes first, and `*` needs none."""
    chosen = {"scheduler": {"extraEnv": values}}
    if used:
        with pytest.raises(Blocked, match="has the variable https_proxy"):
            _check("kube-scheduler", "https_proxy", "http://127.0.0.1:3128", chosen, **more)
    else:
        _check("kube-scheduler", "https_proxy", "http://127.0.0.1:3128", chosen, **more)
