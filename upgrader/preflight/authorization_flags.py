"""The planned kube-apiserver authorizes the cluster's clients: its flags name an authorizer that can allow their
requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from upgrader.contract.flags import Argument
from upgrader.model.finding import Finding
from upgrader.model.manifest import objects_in
from upgrader.ports import Kind, KubeObject
from upgrader.preflight.component_flags import component_flags
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.flag_places import flag_place
from upgrader.steps.release.planned_commands import PlannedCommand, commands_of, planned_commands

__all__ = ["check_authorization"]

_FLAG, _FILE = "authorization-mode", "authorization-config"
_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)
_DEFAULT = frozenset({"AlwaysAllow"})
"""kube-apiserver's own."""
_DENIES = frozenset({"AlwaysDeny"})
_OTHERS = frozenset({"ABAC", "Webhook"})
"""They may allow anything: what their file or their backend allows is not known here."""
_KNOWN = frozenset({"AlwaysAllow", "Node", "RBAC"}) | _DENIES | _OTHERS


def check_authorization(context: PreflightContext) -> Iterator[Finding]:
    """A request is allowed if one of the modes allows it, so AlwaysDeny matters only if it is the only one. With
    `--authorization-config`, a file decides; and kube-apiserver doesn't start with a mode that it doesn't know.
    """
    for command in planned_commands(context.changing, context.target):
        after = _modes(command)
        if after is None or not after <= _KNOWN or after & (_DEFAULT | _OTHERS):
            continue
        before = _running(context, command)
        if after == before:
            continue
        if "RBAC" not in after:
            yield _finding(context, command, "users, controllers and health checks", _roles(after))
        elif "Node" not in after and before is not None and "Node" in before and not _nodes_are_bound(context):
            yield _finding(
                context,
                command,
                "kubelets",
                "The running kube-apiserver has the mode Node, and no ClusterRoleBinding gives the group system:nodes "
                "a role: kubelets couldn't report their nodes and pods, which become NotReady.",
            )


def _roles(after: frozenset[str]) -> str:
    others = "kubelets' requests" if "Node" in after else "no requests"
    return (
        f"No roles count without the mode RBAC, and the given modes allow {others} (except for the group "
        "system:masters, which may do everything): all others are refused with HTTP 403."
    )


def _finding(context: PreflightContext, command: PlannedCommand, whose: str, why: str) -> Finding:
    place = flag_place(context.values_files.get(command.release.name), command.component, f"--{_FLAG}")
    given = ",".join(_given(command.flags or ()))
    return Finding(
        "flags.authorization",
        "error",
        f"{command} would refuse the requests of {whose}",
        f"--{_FLAG}={given}{f' ({place})' if place else ''}. {command.place} {why}",
        f"Change the values of release {command.release.name}: set {_FLAG} to Node,RBAC, or remove it, as that is the "
        "chart's default.",
    )


def _given(flags: Iterable[Argument]) -> tuple[str, ...]:
    """A list: each repetition adds to it."""
    texts = [each.value or "" for each in flags if each.name == _FLAG and not each.letter]
    return tuple(mode.strip() for text in texts for mode in text.split(","))


def _modes(command: PlannedCommand) -> frozenset[str] | None:
    """None if the flags can't be read or don't decide, and for other components."""
    if command.component != "kube-apiserver" or command.flags is None or command.value(_FILE):
        return None
    return frozenset(_given(command.flags)) or _DEFAULT


def _running(context: PreflightContext, planned: PlannedCommand) -> frozenset[str] | None:
    """Those of the release as it is now; without one, of a static pod. None if they aren't known."""
    release = planned.release
    for item in objects_in(release.before).items():
        for command in commands_of(release, *item, context.target):
            if command.component == planned.component:
                return _modes(command)
    flags: Mapping[str, str] | None = component_flags(context, planned.component)
    if flags is None or _FILE in flags:
        return None
    return frozenset(flags[_FLAG].split(",")) if _FLAG in flags else _DEFAULT


def _nodes_are_bound(context: PreflightContext) -> bool:
    """Whether RBAC gives kubelets rights, by their group or their names; which ones is not read."""
    return any(map(_is_of_nodes, context.kube.list(_BINDINGS)))


def _is_of_nodes(binding: KubeObject) -> bool:
    # kubeadm's own, for certificates alone, are for that group too.
    if str(binding["roleRef"]["name"]).startswith("system:certificates.k8s.io:"):
        return False
    subjects: Iterable[Mapping[str, Any]] = binding.get("subjects") or ()
    return any(
        (each.get("kind"), each.get("name")) == ("Group", "system:nodes")
        or (each.get("kind") == "User" and str(each.get("name")).startswith("system:node:"))
        for each in subjects
    )
