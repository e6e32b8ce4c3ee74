"""Which cluster a kubeconfig points at, checked before the first connection."""

from __future__ import annotations

from pathlib import Path

from upgrader.config.yaml_document import read_mapping, shown
from upgrader.errors import ConfigError, UsageError

__all__ = ["check_context"]


def check_context(kubeconfig: Path, wanted: str) -> str:
    """The kubeconfig's current context, which must be `wanted` unless that is "".

    Raises ConfigError when the file is missing or has no current context, UsageError for another context.
    """
    if not kubeconfig.is_file():
        raise ConfigError(
            f"{shown(kubeconfig)}: no such file",
            remedy="Put the cluster's kubeconfig there, or name it: `cluster.kubeconfig` in upgrader.yaml.",
        )
    document = read_mapping(kubeconfig)
    current = document.data.get("current-context")
    if not isinstance(current, str) or not current:
        raise document.error(
            (),
            "the kubeconfig has no current context",
            remedy=f"Choose one: kubectl config use-context {wanted or 'NAME'} --kubeconfig {shown(kubeconfig)}",
        )
    if wanted and current != wanted:
        raise UsageError(
            f"{shown(kubeconfig)} points at context '{current}', but this cluster's is '{wanted}'",
            remedy=f"kubectl config use-context {wanted} --kubeconfig {shown(kubeconfig)}",
        )
    return current
