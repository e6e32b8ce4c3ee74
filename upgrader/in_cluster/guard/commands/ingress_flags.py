"""The flags of the role ingress."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upgrader.in_cluster.guard.core.ingress import NODE_ANNOTATIONS

__all__ = ["IngressSettings", "add_ingress_flags", "ingress_settings"]


@dataclass(frozen=True)
class IngressSettings:
    """What the flags say. `image`: that of health checkers whose IngressDaemonSet names none, or the original's."""

    namespaces: tuple[str, ...] = ()
    image: str = ""
    node_annotations: tuple[str, ...] = NODE_ANNOTATIONS


def add_ingress_flags(flag: Callable[..., None]) -> None:
    """`flag(name, dest, type, default, help, **more)` adds one."""
    text = "namespace whose IngressDaemonSets are reconciled; can be repeated (default: -kubernetes.namespace)"
    flag("ingress.namespace", "ingress_namespaces", str, [], text, action="append", metavar="NAME")
    text = "guard's image, for health checkers whose IngressDaemonSet names no image, or the original's"
    flag("ingress.health-checker-image", "checker_image", str, "", text, metavar="IMAGE")
    text = (
        "annotation that IngressDaemonSets may set on Nodes; can be repeated (default: the annotations that an "
        "upgrade uses)"
    )
    flag("ingress.node-annotation", "node_annotations", str, [], text, action="append", metavar="KEY")


def ingress_settings(given: argparse.Namespace, namespaces: Sequence[str]) -> IngressSettings:
    """From the parsed flags; `namespaces` unless they name others."""
    own = tuple(dict.fromkeys(given.ingress_namespaces))
    keys = tuple(dict.fromkeys(given.node_annotations))
    return IngressSettings(own or tuple(namespaces), given.checker_image, keys or NODE_ANNOTATIONS)
