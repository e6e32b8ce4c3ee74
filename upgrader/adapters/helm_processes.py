"""Finds the Helm processes of this machine, also those whose starter has ended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from upgrader.config.kubeconfig import ClusterAddress, read_cluster_address
from upgrader.errors import ConfigError

__all__ = ["helm_at_work"]

_CHANGES = ("install", "upgrade", "rollback", "uninstall", "delete")


def helm_at_work(release: str, namespace: str, ours: ClusterAddress | None, processes: Path = Path("/proc")) -> int:
    """The process ID of a Helm that changes a release of that name and namespace; 0: there is none.

    One whose kubeconfig leads to another cluster than `ours` doesn't count; one of which that isn't certain does. A
    Helm on another machine isn't seen, nor any on a system without `/proc`.
    """
    for pid, words in _commands(processes):
        verbs = {word for word in words[1:] if not word.startswith("-")}
        in_namespace = namespace in words or f"--namespace={namespace}" in words or namespace == "default"
        if Path(words[0]).name != "helm" or not verbs & set(_CHANGES) or release not in verbs or not in_namespace:
            continue
        if not _elsewhere(words, ours):
            return pid
    return 0


def _elsewhere(words: list[str], ours: ClusterAddress | None) -> bool:
    """Whether a command line leads to another cluster for certain: to another address, and by another CA.

    One cluster may have several addresses, and two clusters may have the same one behind different tunnels.
    """
    kubeconfig = Path(_option(words, "--kubeconfig"))
    if ours is None or not kubeconfig.is_absolute():
        return False
    try:
        theirs = read_cluster_address(kubeconfig, _option(words, "--kube-context"))
    except ConfigError:
        return False
    named = bool(ours.authority and theirs.authority)
    return named and theirs.authority != ours.authority and theirs.server != ours.server


def _option(words: list[str], name: str) -> str:
    """The value of an option, as `--name value` or `--name=value`; "" without it."""
    given = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    given += [value for option, value in pairwise(words) if option == name]
    return given[0] if given else ""


def _commands(processes: Path) -> Iterator[tuple[int, list[str]]]:
    for entry in processes.glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        words = line.decode(errors="replace").rstrip("\0").split("\0")
        if words[0]:
            yield int(entry.name), words
