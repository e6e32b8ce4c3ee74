"""Which containerd a node has, and to which one it can go while its containers run."""

from __future__ import annotations

import re

__all__ = ["step_problem", "step_warning", "version_in"]

_RESTARTS_IN_OLD_SANDBOXES = (2, 0, 6)
"""The first 2.x that can start a container anew in a sandbox that 1.x has made."""


_NEXT_MAJOR: dict[tuple[int, ...], tuple[int, ...]] = {(1, 7): (2, 0)}
_LTS = {((1, 7), (2, 3)), ((2, 0), (2, 3))}
"""The steps between releases with long-term support: https://containerd.io/releases/#upgrade-path"""


def version_in(text: str) -> str:
    """The version in what `containerd --version` prints, without `v`; "" where it has none."""
    words = text.split()
    return re.sub("^v", "", words[2]) if len(words) > 2 and words[0] == "containerd" else ""


def step_problem(installed: str, wanted: str) -> str:
    """Why a node with one version can't get the other under its containers, and what to do; "" where it can."""
    old, new = _numbers(installed), _numbers(wanted)
    if not old:
        return "the version of the installed containerd is unknown: see what it prints for --version"
    if not new:
        return f"{wanted} is not a version such as 2.1.4"
    if new < old:
        return f"{wanted} is older than {installed}, and might not be able to read its containers"
    if old < (1, 7) and new >= (2,):
        # A shim of 2.x leaves no file `address`, without which 1.6 takes its container for dead, and deletes it.
        return f"after a rollback, {installed} would end the containers that {wanted} has started: upgrade to 1.7 first"
    if old < (2,) <= new < _RESTARTS_IN_OLD_SANDBOXES:
        return f"{wanted} can't restart the containers of pods that {installed} has started: take 2.0.6 or newer"
    return ""


def step_warning(installed: str, wanted: str) -> str:
    """What upstream says of the step between two versions, if it doesn't support it; "" where it does."""
    old, new = _numbers(installed)[:2], _numbers(wanted)[:2]
    if not old or not new or new <= old or new == _NEXT_MAJOR.get(old, (old[0], old[1] + 1)) or (old, new) in _LTS:
        return ""
    return (
        f"containerd supports upgrades to the next minor version, and from 1.7 to 2.3, but not from {installed} to "
        f"{wanted} in one step: on the nodes, `ctr deprecations list` names what they use and a newer version may lack"
    )


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found.group().split(".")] if found else []
    return (*numbers, 0, 0)[: max(3, len(numbers))] if numbers else ()
