"""The flags of what PodProtectors need: the roles generator and aggregator, and the webhook of each cell."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.core.selectors import InvalidSelector, Selector

__all__ = ["ProtectorSettings", "add_flags", "settings_of"]

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True)
class ProtectorSettings:
    """What the flags say. `cells`: what the webhook answers for, each with the kubeconfig of its API; None: our own."""

    cells: Mapping[str, Path | None] = field(default_factory=dict)
    prefix: str = ""
    cell: str = "default"
    core: Path | None = None
    namespaces: tuple[str, ...] = ()
    protected: Selector = field(default_factory=Selector)
    pod_labels: str = ""
    defaults: Tuning = field(default_factory=Tuning)


def add_flags(flag: Callable[..., None], seconds: Callable[[str], float]) -> None:
    """`flag(name, dest, type, default, help, **more)` adds one; `seconds` reads a duration."""
    text = "cells whose pods the webhook protects, each with a kubeconfig if guard runs in a different cluster"
    flag("protector.cells", "cells", _cells, {}, text, metavar="CELL[=FILE],…")
    text = "prefix of /CELL in the webhook's path"
    flag("protector.path-prefix", "prefix", _prefix, "/protector", text, metavar="/protector")
    flag("protector.cell", "cell", _cell, "default", "cell whose pods the aggregator counts", metavar="default")
    text = "kubeconfig of the cluster with the PodProtectors, if guard runs in a different cluster"
    flag("protector.core-config-file", "core", Path, None, text, metavar="FILE")
    text = "namespace whose pods are protected; can be repeated (default: all)"
    flag("protector.namespace", "protector_namespaces", str, [], text, action="append", metavar="NAME")
    text = "selector of the Deployments that get a PodProtector"
    own = "podseidon.kubewharf.io/protect=true"
    flag("protector.protected-selector", "protected", _selector, Selector.parse(own), text, metavar=own)
    text = "selector of the cell's pods to count; other pods take no memory"
    flag("protector.pod-selector", "pod_labels", _query, "", text, metavar="SELECTOR")
    text = "default limit of allowed deletions that are not counted yet; 0: no limit"
    flag("protector.max-concurrent-lag", "max_lag", _count, 0, text, metavar="0")
    text = "default limit of these deletions that are recorded one by one"
    flag("protector.compact-threshold", "compact", _count, 100, text, metavar="100")
    text = "default limit of the time from a change of a pod until it is counted"
    flag("protector.aggregation-rate", "rate", seconds, 1.0, text, metavar="1s")


def settings_of(given: argparse.Namespace) -> ProtectorSettings:
    """From the parsed flags."""
    return ProtectorSettings(
        cells=given.cells,
        prefix=given.prefix,
        cell=given.cell,
        core=given.core,
        namespaces=tuple(dict.fromkeys(given.protector_namespaces)),
        protected=given.protected,
        pod_labels=given.pod_labels,
        defaults=Tuning(given.max_lag, given.compact, given.rate),
    )


def _cell(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a cell's name: use letters, digits, dots, dashes, underscores"
        )
    return text


def _cells(text: str) -> dict[str, Path | None]:
    parts = [part.partition("=") for part in text.split(",") if part]
    return {_cell(name): Path(file) if file else None for name, _, file in parts}


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text.rstrip("/")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a path such as /protector")
    return text.rstrip("/")


def _selector(text: str) -> Selector:
    try:
        return Selector.parse(text)
    except InvalidSelector as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _query(text: str) -> str:
    _selector(text)
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not an integer from 0 to {2**31 - 1}")
    return int(text)
