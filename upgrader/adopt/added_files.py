"""The files of flags that a chart adds to those of a static pod.

The charts have kubeadm's flags. A static pod that lacks one of them, say those of the aggregation layer, may be on a
controller without that file: the chart's pod would wait for it forever, or end at it.
"""

from __future__ import annotations

from collections.abc import Sequence

from upgrader.adopt.derive import FlagChange
from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.files_of_host import files_of_host
from upgrader.errors import Blocked
from upgrader.model.components import RELEASE_AND_SECTION
from upgrader.ports import Hosts

__all__ = ["check_added_files"]

_KUBECONFIG = "kubeconfig"
_NEEDED = {
    _KUBECONFIG: "Set {kubeconfig} to the path of its kubeconfig, which has to be on every controller.",
    "service-account-key-file": "Create it on every controller: openssl rsa -in {folder}/sa.key -pubout -out {path}",
}
"""Flags that can't be empty."""


def check_added_files(
    hosts: Hosts, controllers: Sequence[ControllerFacts], certificates: str, changes: Sequence[FlagChange]
) -> None:
    """Of each controller whose static pods run. `certificates`: kubeadm's folder; `changes`: of flags, with the
    release's own values.

    Raises Blocked, or HostError.
    """
    added = [
        (change, path)
        for change in changes
        for path in change.after
        if path not in change.before
        and (path.startswith(f"{certificates}/") or (change.name.endswith(_KUBECONFIG) and path))
    ]
    for controller in controllers:
        wanted = [(change, path) for change, path in added if change.component in controller.active]
        there = files_of_host(hosts, controller.host, [path for _, path in wanted])
        for change, path in wanted:
            if path not in there:
                raise Blocked(
                    f"{controller.host.name} has no file {path}: the chart starts {change.component} with "
                    f"--{change.name}={path}, which its static pod doesn't have; nothing was changed",
                    remedy=_NEEDED.get(
                        change.name,
                        f'To leave the flag out, set `{change.name}: ""` in {_place(change, "extraArgs")}. Or create '
                        "the file on every controller.",
                    ).format(path=path, folder=certificates, kubeconfig=_place(change, _KUBECONFIG)),
                )


def _place(change: FlagChange, key: str) -> str:
    """Where a key of its component is in the values."""
    release, section = RELEASE_AND_SECTION[change.component]
    return f"`{'.'.join((*section, key))}` in values/{release}.yaml"
