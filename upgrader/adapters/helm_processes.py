"""Finds the Helm processes of this machine, also those whose starter has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["helm_at_work"]

_CHANGES = ("install", "upgrade", "rollback", "uninstall", "delete")


def helm_at_work(release: str, namespace: str, processes: Path = Path("/proc")) -> int:
    """The process ID of a Helm that changes a release of that name and namespace, in any cluster; 0: there is none.

    A Helm on another machine isn't seen, nor any on a system without `/proc`.
    """
    for pid, words in _commands(processes):
        verbs = {word for word in words[1:] if not word.startswith("-")}
        in_namespace = namespace in words or f"--namespace={namespace}" in words or namespace == "default"
        if Path(words[0]).name == "helm" and verbs & set(_CHANGES) and release in verbs and in_namespace:
            return pid
    return 0


def _commands(processes: Path) -> Iterator[tuple[int, list[str]]]:
    for entry in processes.glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        words = line.decode(errors="replace").rstrip("\0").split("\0")
        if words[0]:
            yield int(entry.name), words
