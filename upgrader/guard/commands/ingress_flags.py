"""The flags of the role ingress."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["IngressSettings", "add_ingress_flags", "ingress_settings"]


@dataclass(frozen=True)
class IngressSettings:
    """What the flags say. `image`: that of health checkers whose IngressDaemonSet names none, or the original's."""

    namespaces: tuple[str, ...] = ()
    image: str = ""


def add_ingress_flags(flag: Callable[..., None]) -> None:
    """`flag(name, dest, type, default, help, **more)` adds one."""
    text = "namespace whose IngressDaemonSets are kept; can be repeated (default: -kubernetes.namespace)"
    flag("ingress.namespace", "ingress_namespaces", str, [], text, action="append", metavar="NAME")
    text = "guard's own image, for health checkers whose IngressDaemonSet names none, or the original's"
    flag("ingress.health-checker-image", "checker_image", str, "", text, metavar="IMAGE")


def ingress_settings(given: argparse.Namespace, namespaces: Sequence[str]) -> IngressSettings:
    """From the parsed flags; `namespaces` unless they name others."""
    own = tuple(dict.fromkeys(given.ingress_namespaces))
    return IngressSettings(own or tuple(namespaces), given.checker_image)
