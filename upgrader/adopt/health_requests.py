"""HAProxy's check is answered, where it is anonymous: kube-apiserver's chart gives it no token beside a token file of
the operator's own, nor with `health.token: false`.

`--anonymous-auth=false` refuses it then. The chart can't see the file of `--authentication-config`, whose
`anonymous` takes that flag's place: with it off, no check would ever succeed, and the listener would never open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.volumes import innermost_mount, on_host
from upgrader.contract.flags import is_true
from upgrader.errors import Blocked
from upgrader.model.go_yaml import first_document
from upgrader.ports import Hosts

__all__ = ["check_anonymous", "check_health_requests"]

_FLAG = "authentication-config"
_TOKENS = "token-auth-file"
_ASKED = ("/livez", "/readyz")
"""What HAProxy asks for; a condition allows exactly its own path."""


def check_anonymous(controllers: Iterable[ControllerFacts], chosen: Mapping[str, Any]) -> None:
    """Of kube-apiservers with a token file of the operator's own, before the chart is rendered. `chosen`: the
    operator's own values of their release, whose flag wins; the chart checks that one. Raises Blocked.
    """
    for controller in controllers if "anonymous-auth" not in (chosen.get("extraArgs") or {}) else ():
        static = controller.active.get("kube-apiserver")
        flags = static.flags if static else {}
        allowed = flags.get("anonymous-auth", ("true",))[-1]
        if flags.get(_TOKENS, ("",))[-1] and not is_true(allowed):
            raise Blocked(
                f"kube-apiserver's static pod on {controller.host.name} has --{_TOKENS} and "
                f"--anonymous-auth={allowed}: the chart's HAProxy couldn't check kube-apiserver. For its check, "
                "HAProxy needs anonymous requests or its own token file, and kube-apiserver reads only one such file; "
                "nothing was changed",
                remedy=f"On every controller, remove either --{_TOKENS} (the chart then sets it for HAProxy's check) "
                "or --anonymous-auth. To restrict anonymous requests to /livez and /readyz, use "
                f"`anonymous.conditions` in a file of --{_FLAG}.",
            )


def check_health_requests(hosts: Hosts, controllers: Iterable[ControllerFacts], values: Mapping[str, Any]) -> None:
    """Of each controller whose kube-apiserver is a static pod; a missing file is for others to find. `values` are those
    of release kube-apiserver. Raises Blocked, or HostError.
    """
    named = (values.get("extraArgs") or {}).get(_FLAG, "")
    inside = named[-1] if isinstance(named, list) else named
    if not inside or (values.get("health") or {}).get("token", True):
        return
    for controller in controllers:
        static = controller.active.get("kube-apiserver")
        if static is None or (mount := innermost_mount(static, inside)) is None:
            continue
        path = on_host(mount, inside)
        if refused := _refused(hosts.read(controller.host, path) or b""):
            raise Blocked(
                f"{controller.host.name}: {path} (`anonymous`), which --{_FLAG} names, rejects anonymous requests for "
                f"{' and '.join(refused)}. HAProxy's check would never succeed, because it has no token "
                "(`health.token: false`, as kube-apiserver reads only one --token-auth-file); nothing was changed",
                remedy="Allow them on every controller, as `anonymous: {enabled: true, conditions: [{path: /livez}, "
                "{path: /readyz}]}`. Or give HAProxy's check a token: remove --token-auth-file from the static pods, "
                "and `health.token` from values/kube-apiserver.yaml.",
            )


def _refused(content: bytes) -> tuple[str, ...]:
    """Of what HAProxy asks for; all of it if the file can't be understood. Without `anonymous`, the flag decides."""
    try:
        anonymous = (first_document(content) or {}).get("anonymous")
        if anonymous is None:
            return ()
        allowed = {each["path"] for each in anonymous.get("conditions") or ()} or {*_ASKED}
        return tuple(path for path in _ASKED if not anonymous.get("enabled") or path not in allowed)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
        return _ASKED
