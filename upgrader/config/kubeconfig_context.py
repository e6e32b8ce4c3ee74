"""The cluster that a kubeconfig points at."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from upgrader.config.yaml_document import Document, read_first_mapping, shown
from upgrader.errors import ConfigError, UsageError
from upgrader.model.redaction.known_secrets import KNOWN, secrets_in
from upgrader.model.settings import Settings

__all__ = ["check_context", "find_context", "kubectl_context", "server_addresses"]

_KUBECTL = "KUBECONFIG"
_MISSING = (
    "Put the cluster's kubeconfig there, or name it: `cluster.kubeconfig` in upgrader.yaml, --kubeconfig, or "
    f"{_KUBECTL} with --context."
)


def find_context(settings: Settings, environ: Mapping[str, str], missing: str = _MISSING) -> tuple[Path, str]:
    """The kubeconfig and context of the settings; raises UsageError or ConfigError. If upgrader.yaml names no
    kubeconfig, and the folder has none, it is kubectl's (`KUBECONFIG`), and the context must be named: the current one
    there may be any cluster that was used last. `missing`: what helps where there is no such file.
    """
    path, wanted = settings.kubeconfig, settings.context
    listed = environ.get(_KUBECTL, "")
    if listed and not settings.kubeconfig_named and not path.is_file():
        return _of_kubectl([Path(name).absolute() for name in listed.split(os.pathsep) if name], wanted)
    if not settings.context_chosen:
        return path, check_context(path, wanted, missing)
    document = _read(path, missing)
    if wanted not in _entries(document, "contexts"):
        raise UsageError(
            f"{shown(path)} has no context '{wanted}'",
            remedy=f"Choose one of its contexts: {', '.join(sorted(_entries(document, 'contexts'))) or 'none'}",
        )
    return path, wanted


def kubectl_context(environ: Mapping[str, str]) -> tuple[Path, str]:
    """The kubeconfig and the context that kubectl would use now, unless the environment names others to upgrader.

    Raises UsageError or ConfigError.
    """
    chosen, listed = environ.get("UPGRADER_KUBECONFIG"), environ.get(_KUBECTL)
    default = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    names = [chosen] if chosen else (listed or "").split(os.pathsep)
    files = [Path(name).absolute() for name in names if name] or [default]
    if not any(file.is_file() for file in files):
        raise ConfigError(
            f"there is no kubeconfig: {', '.join(map(shown, files))}",
            remedy=f"Give the cluster's kubeconfig: --kubeconfig FILE, or {_KUBECTL}.",
        )
    contexts = (str(_read(file).data.get("current-context") or "") for file in files if file.is_file())
    wanted = environ.get("UPGRADER_CONTEXT") or next(filter(None, contexts), "")
    if not wanted:
        raise UsageError(
            f"no current context is set in {', '.join(map(shown, files))}",
            remedy="Choose one: --context NAME (kubectl config get-contexts lists them).",
        )
    return _of_kubectl(files, wanted)


def _of_kubectl(files: Sequence[Path], wanted: str) -> tuple[Path, str]:
    """The file that has the context, and its cluster and user: of several entries of a name, the first one counts."""
    if not wanted:
        raise UsageError(
            f"there is no kubeconfig in this folder, and {_KUBECTL} may point at any cluster",
            remedy="Set this cluster's context: `cluster.context` in upgrader.yaml, or --context.",
        )
    documents = {file: _read(file) for file in files if file.is_file()}  # kubectl passes over missing ones, too
    places = {kind: _first_places(documents, kind) for kind in ("contexts", "clusters", "users")}
    path = places["contexts"].get(wanted)
    if path is None:
        raise UsageError(
            f"there is no context '{wanted}' in {', '.join(map(shown, files))}",
            remedy=f"Choose one of their contexts: {', '.join(sorted(places['contexts'])) or 'none'}",
        )
    context = _entries(documents[path], "contexts")[wanted].get("context") or {}
    for kind, key in (("clusters", "cluster"), ("users", "user")):
        name = str(context.get(key) or "")
        place = places[kind].get(name, path)
        if name and place != path:
            raise UsageError(
                f"the context '{wanted}' is in {shown(path)}, but its {key} '{name}' is in {shown(place)}",
                remedy="Merge them into one file, readable only by you: kubectl config view --minify --flatten "
                f"--context {wanted} > kubeconfig",
            )
    return path, wanted


def _first_places(documents: Mapping[Path, Document], kind: str) -> dict[str, Path]:
    places: dict[str, Path] = {}
    for path, document in documents.items():
        for name in _entries(document, kind):
            places.setdefault(name, path)
    return places


def _entries(document: Document, kind: str) -> dict[str, Mapping[str, Any]]:
    found = document.data.get(kind)
    entries = found if isinstance(found, list) else []
    return {str(entry["name"]): entry for entry in entries if isinstance(entry, dict) and "name" in entry}


def _read(kubeconfig: Path, missing: str = _MISSING) -> Document:
    if not kubeconfig.is_file():
        raise ConfigError(f"{shown(kubeconfig)}: no such file", remedy=missing)
    document = read_first_mapping(kubeconfig)
    KNOWN.learn(secrets_in(document.data))
    return document


def check_context(kubeconfig: Path, wanted: str, missing: str = _MISSING) -> str:
    """The kubeconfig's current context, which must be `wanted` unless that is "".

    Raises ConfigError when the file is missing or has no current context, UsageError for another context.
    """
    document = _read(kubeconfig, missing)
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
            remedy=_right_context(document, kubeconfig, wanted),
        )
    return current


def _right_context(document: Document, kubeconfig: Path, wanted: str) -> str:
    contexts = _entries(document, "contexts")
    if wanted in contexts:
        return f"kubectl config use-context {wanted} --kubeconfig {shown(kubeconfig)}"
    return (
        f"Correct `cluster.context` in upgrader.yaml (contexts of the kubeconfig: {', '.join(contexts) or 'none'}), or "
        "use the kubeconfig of that cluster."
    )


def server_addresses(kubeconfig: Path, context: str) -> tuple[str, ...]:
    """The host of a context's API server, and the addresses that this machine finds for it (none: behind a proxy)."""
    data = read_first_mapping(kubeconfig).data
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
