"""The part of a kubeconfig that is used, without references to files: for one that others may replace at any time.

A kubeconfig names a program that is run (`exec`), files that are read and sent (`tokenFile`), and the server that they
are sent to. So what it says is read once, checked, and handed on as a copy in which files are replaced by their
content: neither Helm, which reads it by itself, nor a later look finds anything else there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.config.client_tls import check_pair
from upgrader.config.exec_variables import check_exec_variables
from upgrader.config.kubeconfig import refuse_unsupported
from upgrader.config.kubeconfig_context import find_context
from upgrader.config.kubeconfig_entries import entry
from upgrader.config.plain_file import read_plain
from upgrader.config.yaml_document import read_first_mapping, shown
from upgrader.errors import ConfigError
from upgrader.model.settings import Settings

__all__ = ["UsedKubeconfig", "read_used"]

_SERVER = ("server", "tls-server-name", "proxy-url", "disable-compression", "extensions")
_CA = "certificate-authority"
_CERTIFICATE = ("client-certificate", "client-key")
_MISSING = "Put the cluster's kubeconfig there, or name another file: `cluster.kubeconfig` in its upgrader.yaml."
"""Options and variables would choose one kubeconfig for all clusters of a fleet."""
_FILE_BYTES = 1024 * 1024
_BEGIN, _END = "-----BEGIN ", "-----END "


@dataclass(frozen=True)
class UsedKubeconfig:
    """One context with its cluster and its user."""

    pinned: str
    """A digest of all but credentials: the server, its CA, the proxy, the command with arguments and environment, and
    the names of files.
    """
    content: bytes = field(repr=False)
    """A kubeconfig of only this context, with credentials, and without references to files."""
    command: str = ""
    """What is run for credentials, with its arguments, as a shell would be given it; "": nothing."""


def read_used(settings: Settings, environ: Mapping[str, str], commands: Collection[str]) -> UsedKubeconfig:
    """The kubeconfig of these settings; `environ` may name kubectl's. `commands` are those that `exec` may run.

    Files that it names are read only from the cluster folder, whose path has no links, and from the folder that the
    kubeconfig is in, links followed. Raises UsageError and ConfigError.
    """
    path, context = find_context(settings, environ, _MISSING)
    real = path.resolve()
    document = read_first_mapping(real, links=False)
    chosen = entry(document, "context", context)
    cluster = entry(document, "cluster", chosen.get("cluster"))
    user = entry(document, "user", chosen["user"]) if chosen.get("user") else {}
    refuse_unsupported(path, cluster, user)
    files = _Files(path, (settings.folder.absolute(), real.parent))
    server = {key: cluster[key] for key in _SERVER if cluster.get(key)}
    if authority := files.content(cluster, _CA):
        server[f"{_CA}-data"] = authority
    given: dict[str, Any] = {f"{key}-data": data for key in _CERTIFICATE if (data := files.content(user, key))}
    check_pair(path, user, given)  # else half of a renewed pair would be what a run has, until the next copy is made
    plugin = _plugin(path, user, commands)
    if token := files.token(user):
        given["token"] = token
    elif plugin:
        given["exec"] = plugin
    names = [[key, str(value)] for key in (*_CERTIFICATE, "tokenFile") if (value := user.get(key))]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "cluster", "user": "user"}}],
        "clusters": [{"name": "cluster", "cluster": server}],
        "users": [{"name": "user", "user": given}],
    }
    written = _json(path, content)  # first: what it refuses has no digest either
    run = given.get("exec") or {}
    words = [str(run["command"]), *map(str, run.get("args") or ())] if run else []
    return UsedKubeconfig(_digest([context, server, plugin, names]), written, shlex.join(words))


def _digest(pinned: object) -> str:
    return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()


def _json(path: Path, content: object) -> bytes:
    try:
        return json.dumps(content).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{shown(path)}: has a value that is neither text, number, list nor mapping") from error


def _plugin(path: Path, user: Mapping[str, Any], commands: Collection[str]) -> Mapping[str, Any] | None:
    plugin: Mapping[str, Any] | None = user.get("exec")
    if not plugin:
        return None
    command = plugin.get("command") if isinstance(plugin, dict) else None
    if not isinstance(command, str) or command not in commands or ("/" in command and not command.startswith("/")):
        raise ConfigError(
            f"{shown(path)}: its user has `exec`, and the campaign doesn't allow the command {command!r}",
            remedy="Use a token or a client certificate; or allow the command in fleet.yaml (kubeconfigExec), if all "
            "who can change this folder may run any code.",
        )
    check_exec_variables(path, plugin.get("env") or ())
    return plugin


@dataclass(frozen=True)
class _Files:
    """The files that a kubeconfig names; those that are `inside` one of some folders are read."""

    kubeconfig: Path
    inside: tuple[Path, ...]

    def content(self, section: Mapping[str, Any], key: str) -> str:
        """Base64 of certificates or a key: as it is, or else of the file, as for all else that reads it; "" where there
        is none.
        """
        if data := section.get(f"{key}-data"):
            return str(data)
        name = section.get(key)
        if not name:
            return ""
        content = self._read(key, name)
        try:
            text = content.decode("ascii")
        except UnicodeDecodeError:
            text = ""
        if not text.lstrip().startswith(_BEGIN) or not text.rstrip().rpartition("\n")[2].startswith(_END):
            raise ConfigError(f"{shown(self.kubeconfig)}: its {key}, {name}, is not in PEM format")
        return base64.b64encode(content).decode()

    def token(self, user: Mapping[str, Any]) -> str:
        """Of a file and a token beside it, the file's counts, as for kubectl; "" where there is none."""
        name = user.get("tokenFile")
        token = self._read("tokenFile", name).decode(errors="replace").strip() if name else str(user.get("token") or "")
        if not (token.isascii() and token.isprintable()):
            raise ConfigError(f"{shown(self.kubeconfig)}: its token has invalid characters")
        return token

    def _read(self, key: str, name: object) -> bytes:
        path = self.kubeconfig.absolute().parent / str(name)
        try:
            real = path.resolve(strict=True)
            if not any(real.is_relative_to(folder) for folder in self.inside):
                raise ConfigError(
                    f"{shown(self.kubeconfig)}: its {key}, {name}, is neither in the cluster folder nor in the "
                    "kubeconfig's folder",
                    remedy="Put the file there, or its content into the kubeconfig: kubectl config view --flatten",
                )
            return read_plain(real, _FILE_BYTES, links=False)  # a part of it may have become a link since
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle; ValueError: a NUL
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(f"{shown(self.kubeconfig)}: its {key}, {name}, can't be read: {why}") from error
