"""Which cluster a kubeconfig points at, and where."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from upgrader.config.yaml_document import read_mapping, shown
from upgrader.errors import ConfigError, UsageError
from upgrader.redaction.known_secrets import KNOWN, secrets_in

__all__ = ["check_context", "server_addresses"]


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
    KNOWN.learn(secrets_in(document.data))
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


def server_addresses(kubeconfig: Path, context: str) -> tuple[str, ...]:
    """The host of a context's API server, and the addresses that this machine finds for it (none: behind a proxy)."""
    data = read_mapping(kubeconfig).data
    contexts = {entry.get("name"): entry.get("context") or {} for entry in data.get("contexts") or ()}
    chosen = contexts.get(context, {}).get("cluster")
    clusters = {entry.get("name"): entry.get("cluster") or {} for entry in data.get("clusters") or ()}
    host = urlsplit(str(clusters.get(chosen, {}).get("server", ""))).hostname
    if not host:
        return ()
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        found = set()
    return tuple(sorted({host, *found}))
