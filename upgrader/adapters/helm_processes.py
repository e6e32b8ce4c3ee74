"""Finds the Helm processes of this machine, also those whose starter has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["CLUSTER_VARIABLE", "helm_at_work"]

CLUSTER_VARIABLE = "UPGRADER_CLUSTER"
"""In the environment of each Helm that upgrader starts: the UID of its cluster's namespace kube-system."""

_CHANGES = ("install", "upgrade", "rollback", "uninstall", "delete")


def helm_at_work(release: str, namespace: str, cluster: str = "", processes: Path = Path("/proc")) -> int:
    """The process ID of a Helm that changes a release of that name and namespace; 0: there is none.

    `cluster`: the UID of ours; "" if unknown. A Helm that upgrader started for another cluster doesn't count; one of an
    unknown cluster does. A Helm on another machine, or on a system without `/proc`, isn't found.
    """
    for pid, words in _commands(processes):
        verbs = {word for word in words[1:] if not word.startswith("-")}
        in_namespace = namespace in words or f"--namespace={namespace}" in words or namespace == "default"
        if Path(words[0]).name != "helm" or not verbs & set(_CHANGES) or release not in verbs or not in_namespace:
            continue
        theirs = _cluster_of(processes / str(pid))
        if not cluster or not theirs or theirs == cluster:
            return pid
    return 0


def _cluster_of(process: Path) -> str:
    """The cluster's UID in the environment of a process that upgrader started; "" for any other, and for other
    users'.
    """
    try:
        variables = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    prefix = f"{CLUSTER_VARIABLE}="
    return next((text.removeprefix(prefix) for text in variables if text.startswith(prefix)), "")


def _commands(processes: Path) -> Iterator[tuple[int, list[str]]]:
    for entry in processes.glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        words = line.decode(errors="replace").rstrip("\0").split("\0")
        if words[0]:
            yield int(entry.name), words
