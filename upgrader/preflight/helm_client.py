"""The Helm on this machine has a supported version."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.ports import Helm
from upgrader.preflight.context import PreflightContext

__all__ = ["SUPPORTED_MAJORS", "check_client", "check_helm"]

SUPPORTED_MAJORS = ("3", "4")


def check_helm(context: PreflightContext) -> Iterator[Finding]:
    """Helm 3 or 4."""
    yield from check_client(context.helm)


def check_client(helm: Helm) -> Iterator[Finding]:
    """The same, of the client alone: it needs no cluster to answer."""
    version = helm.version()
    if version.removeprefix("v").split(".")[0] not in SUPPORTED_MAJORS:
        yield Finding(
            "helm.version",
            "error",
            f"Helm {version} is not supported",
            f"upgrader works with Helm {' and '.join(SUPPORTED_MAJORS)}.",
            "Install a supported version: https://helm.sh/docs/intro/install/",
        )
