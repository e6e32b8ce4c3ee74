"""The proxies of kube-controller-manager and kube-scheduler: one at a loopback address is none in the charts' pods.

kubeadm copies the variables of its own shell, where a proxy of the machine may be at 127.0.0.1. The static pods share
the controller's network, and the charts' pods don't.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.leaders_api import is_loopback
from upgrader.contract.variables import seen_variables
from upgrader.errors import Blocked

__all__ = ["check_local_proxies"]

_SECTIONS = {"kube-controller-manager": "controllerManager", "kube-scheduler": "scheduler"}
_PROXIES = (("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"))
_EXCEPT = ("NO_PROXY", "no_proxy")
"""What Go's programs read: of two names, the first one that has a value."""
_ALL = "*"
"""As an entry of NO_PROXY: no proxy is used at all."""


def check_local_proxies(controllers: Iterable[ControllerFacts], values: Mapping[str, Any]) -> None:
    """`values`: the operator's for the release `kubernetes`, which have the last word. Raises Blocked. Pure."""
    for controller in controllers:
        for component, section in _SECTIONS.items():
            static = controller.active.get(component)
            chosen = (values.get(section) or {}).get("extraEnv") or {}
            found = seen_variables(static.container) if static else {}
            used = {**found, **{name: str(value or "") for name, value in chosen.items()}}
            excepted = used.get(_given(used, _EXCEPT), "")
            for names in _PROXIES if _ALL not in map(str.strip, excepted.split(",")) else ():
                name = _given(used, names)
                if name not in chosen and is_loopback(_host(used.get(name, ""))):
                    raise Blocked(
                        f"{controller.host.name}: {component}'s static pod has the variable {name}, which names a "
                        "loopback address: the chart's pod can't reach a proxy there, because it doesn't use the host "
                        "network; nothing was changed",
                        remedy=f"Set `{section}.extraEnv.{name}` in values/kubernetes.yaml to an address of the proxy "
                        'that pods can reach; or to "", if that component needs no proxy.',
                    )


def _given(variables: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((name for name in names if variables.get(name)), "")


def _host(url: str) -> str:
    """That of a proxy; "" for a URL that can't be read, which Go passes over."""
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""
