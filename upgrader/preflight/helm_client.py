"""The Helm client."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext

__all__ = ["SUPPORTED_MAJORS", "check_helm"]

SUPPORTED_MAJORS = ("3", "4")


def check_helm(context: PreflightContext) -> Iterator[Finding]:
    """Helm 3 or 4."""
    version = context.helm.version()
    if version.removeprefix("v").split(".")[0] not in SUPPORTED_MAJORS:
        yield Finding(
            "helm.version",
            "error",
            f"Helm {version} is not supported",
            f"upgrader works with Helm {' and '.join(SUPPORTED_MAJORS)}.",
            "Install a supported version: https://helm.sh/docs/intro/install/",
        )
