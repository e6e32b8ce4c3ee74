"""HAProxy's check is answered, where it is anonymous: kube-apiserver's chart gives it no token beside a token file of
the operator's own, nor with `health.token: false`.

`--anonymous-auth=false` refuses it then, and so does kube-apiserver by itself where all requests are authorized
(AlwaysAllow). The chart can't see the file of `--authentication-config`, whose `anonymous` takes that flag's place:
with it off, no check would ever succeed, and the listener would never open.
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
_ALL = "AlwaysAllow"
_ASKED = ("/livez", "/readyz")
"""What HAProxy asks for; a condition allows exactly its own path."""
_ALLOWED = "`anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}`"
_TOKEN_AGAIN = (
    f"Give HAProxy's check a token: remove --{_TOKENS} from the static pods, and `health.token` from "
    "values/kube-apiserver.yaml."
)


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
    extra = values.get("extraArgs") or {}
    named = extra.get(_FLAG, "")
    inside = named[-1] if isinstance(named, list) else named
    authorizes_all = _authorizes_all(extra)
    if not (inside or authorizes_all) or (values.get("health") or {}).get("token", True):
        return
    for controller in controllers:
        static = controller.active.get("kube-apiserver")
        if static is None:
            continue
        mount = innermost_mount(static, inside) if inside else None
        path = on_host(mount, inside) if mount else ""
        anonymous, refused = _anonymous((hosts.read(controller.host, path) or b"") if path else b"")
        if authorizes_all and not anonymous:
            raise Blocked(
                f"{controller.host.name}: with --authorization-mode={_ALL}, which is the default, kube-apiserver "
                "rejects anonymous requests. HAProxy's check would always fail, because it has no token "
                f"(`health.token: false`, because kube-apiserver reads only one --{_TOKENS}); nothing was changed",
                remedy=f"{_TOKEN_AGAIN} Or set --authorization-mode=Node,RBAC on every controller, once all clients "
                f"have rights by RBAC. Or allow them in a file of --{_FLAG}, as {_ALLOWED}.",
            )
        if refused:
            raise Blocked(
                f"{controller.host.name}: {path} (`anonymous`), which --{_FLAG} names, rejects anonymous requests for "
                f"{' and '.join(refused)}. HAProxy's check would always fail, because it has no token "
                f"(`health.token: false`, because kube-apiserver reads only one --{_TOKENS}); nothing was changed",
                remedy=f"Allow them on every controller, as {_ALLOWED}. Or: {_TOKEN_AGAIN}",
            )


def _authorizes_all(extra: Mapping[str, Any]) -> bool:
    """Whether these flags (values of `extraArgs`) have kube-apiserver refuse anonymous requests, because it would do
    what any of them asks. Without the flag, the chart has other modes.
    """
    given = extra.get("authorization-mode", "RBAC")
    modes = [mode for each in (given if isinstance(given, list) else [given]) for mode in str(each).split(",") if mode]
    return "authorization-config" not in extra and (_ALL in modes or not modes)


def _anonymous(content: bytes) -> tuple[bool, tuple[str, ...]]:
    """Whether it says something about anonymous requests, in place of the flags; and which of those that HAProxy makes
    it rejects: all of them if the file can't be understood.
    """
    try:
        anonymous = (first_document(content) or {}).get("anonymous")
        if anonymous is None:
            return False, ()
        allowed = {each["path"] for each in anonymous.get("conditions") or ()} or {*_ASKED}
        return True, tuple(path for path in _ASKED if not anonymous.get("enabled") or path not in allowed)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
        return True, _ASKED
