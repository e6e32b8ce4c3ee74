"""One context of a kubeconfig: the address of its API server, and the credentials for it as they are now."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.config.credential_plugin import run_plugin
from upgrader.config.kubeconfig_entries import entry
from upgrader.config.plain_file import read_plain
from upgrader.config.proxy import Proxy, proxy_for
from upgrader.config.yaml_document import Document, read_first_mapping, shown
from upgrader.errors import ConfigError
from upgrader.model.redaction.known_secrets import KNOWN, secrets_in

__all__ = ["KubeconfigContext", "Login", "named_files", "read_kubeconfig", "refuse_unsupported"]

_REREAD_SECONDS = 60.0
"""Files of tokens and certificates are replaced without notice; kubectl reads them again as often."""
_EARLY_SECONDS = 30.0
"""Credentials are renewed so long before they expire that they stay valid during a request."""
_PAUSE_SECONDS = 10.0
"""The least time between two runs of a plugin whose credentials were refused."""

_CREDENTIAL = re.compile(
    rb"\s*(?:[\w.~+/-]+=*|(?:-----BEGIN [A-Z0-9 ]+-----[A-Za-z0-9+/=\s]*-----END [A-Z0-9 ]+-----\s*)+)\s*"
)
_FILES = ("certificate-authority", "client-certificate", "client-key")


@dataclass(frozen=True)
class KubeconfigContext:
    """The content of a context; `cluster` and `user` have a kubeconfig's keys, with absolute paths."""

    kubeconfig: Path
    server: str
    cluster: Mapping[str, Any] = field(repr=False)
    """Its proxy-url may have a password."""
    user: Mapping[str, Any] = field(repr=False)
    """Only a token, a client certificate and its key, also those from a plugin or a token file."""
    expires: float | None = None
    """When a plugin's credentials end, in seconds since 1970; None for those that don't say."""
    from_plugin: bool = False
    fingerprint: str = ""
    """Of the certificates and keys that are in files."""
    login: str = ""
    """The name of the user, as the kubeconfig has it."""

    def proxy(self, server: str = "") -> Proxy | None:
        """The proxy to the API server, or to another address of it. Raises ConfigError."""
        return proxy_for(server or self.server, str(self.cluster.get("proxy-url") or ""), os.environ)


def read_kubeconfig(kubeconfig: Path, context: str = "") -> KubeconfigContext:
    """Read a context ("": the current one), and run its credential plugin. Raises ConfigError."""
    document = read_first_mapping(kubeconfig)
    chosen = entry(document, "context", context or document.data.get("current-context"))
    cluster = _absolute(kubeconfig, entry(document, "cluster", chosen.get("cluster")))
    given = _absolute(kubeconfig, entry(document, "user", chosen["user"])) if chosen.get("user") else {}
    refuse_unsupported(kubeconfig, cluster, given)
    user = {key: given[key] for key in given if key.startswith("client-")}
    expires = None
    from_plugin = False
    if token := _token(kubeconfig, given):
        user["token"] = token
    elif plugin := given.get("exec"):
        found, expires = run_plugin(kubeconfig, plugin, cluster)
        user, from_plugin = {**user, **found}, True
    KNOWN.learn(secrets_in(user))
    server = str(cluster.get("server", "")).rstrip("/")
    files = _fingerprint(kubeconfig, cluster, user)
    return KubeconfigContext(
        kubeconfig, server, cluster, user, expires, from_plugin, files, str(chosen.get("user") or "")
    )


def refuse_unsupported(kubeconfig: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    """Raise ConfigError for a server that isn't verified, and for a kind of login that upgrader doesn't have."""
    if cluster.get("insecure-skip-tls-verify"):
        raise ConfigError(
            f"{shown(kubeconfig)}: insecure-skip-tls-verify is set, so any machine could pose as the API server",
            remedy="Name the cluster's CA with certificate-authority or certificate-authority-data instead.",
        )
    for key in ("auth-provider", "username", "as", "as-uid", "as-groups", "as-user-extra"):
        if user.get(key):
            raise ConfigError(
                f"{shown(kubeconfig)}: its user has '{key}', which upgrader doesn't support",
                remedy="Use a client certificate, a token, a token file or an `exec` plugin.",
            )


class Login:
    """A context whose credentials are read again before they end, and when they were refused. For several threads."""

    def __init__(self, kubeconfig: Path, context: str, *, now: Callable[[], float] = time.time) -> None:
        """`now` gives seconds since 1970. Raises ConfigError."""
        self._kubeconfig, self.context, self._now = kubeconfig, context, now
        self._lock = threading.Lock()
        self._renewed_at: float | None = None
        self._read_at = now()
        self.current = read_kubeconfig(kubeconfig, context)
        self.version = 0
        """Grows when the credentials change."""

    def keep_fresh(self) -> None:
        """Read them again when it is time; if that fails, the old ones stay until they are refused."""
        with self._lock:
            now = self._now()
            age, expires = now - self._read_at, self.current.expires
            if self.current.from_plugin:
                due = expires is not None and now > expires - _EARLY_SECONDS and not 0 <= age < _PAUSE_SECONDS
            else:
                due = not 0 <= age < _REREAD_SECONDS
            if due:
                try:
                    self._read()
                except ConfigError:
                    return

    def renew(self, refused: int) -> bool:
        """After the credentials of version `refused` were refused: whether there are others now.

        Raises ConfigError when they can't be read.
        """
        with self._lock:
            if self.version != refused:
                return True
            now = self._now()
            recent = self._renewed_at is not None and 0 <= now - self._renewed_at < _PAUSE_SECONDS
            if recent and self.current.from_plugin:  # a file is read at any time; a program may take long, or ask
                return False
            self._renewed_at = now
            self._read()
            return self.version != refused

    def _read(self) -> None:
        self._read_at = self._now()
        found = read_kubeconfig(self._kubeconfig, self.context)
        if found != self.current:
            self.current = found
            self.version += 1


def _absolute(kubeconfig: Path, section: Mapping[str, Any]) -> dict[str, Any]:
    """Its paths are relative to the kubeconfig's folder."""
    folder = kubeconfig.absolute().parent
    return {key: str(folder / str(value)) if key in _FILES and value else value for key, value in section.items()}


def _fingerprint(kubeconfig: Path, *sections: Mapping[str, Any]) -> str:
    """Changes with the content of any of the files that are named."""
    digest = hashlib.sha256()
    for path in (Path(section[key]) for section in sections for key in _FILES if section.get(key)):
        try:
            digest.update(path.read_bytes() + b"\0")
        except OSError as error:
            text = f"{shown(kubeconfig)}: its certificates can't be used: {shown(path)}: {error.strerror}"
            raise ConfigError(text, remedy="Put the file there, or change the kubeconfig.") from error
    return digest.hexdigest()


def _token(kubeconfig: Path, user: Mapping[str, Any]) -> str:
    """The token; of a file and a token beside it, the file's counts, as for kubectl."""
    path = user.get("tokenFile")
    if not path:
        return str(user.get("token") or "")
    try:
        return (kubeconfig.parent / str(path)).read_text().strip()
    except OSError as error:
        raise ConfigError(f"{shown(kubeconfig)}: its tokenFile {path} can't be read: {error.strerror}") from error


def named_files(kubeconfig: Path, context: str = "") -> tuple[Path, ...]:
    """The files of tokens, certificates and keys that a context ("": the current one) uses, and that are nothing else:
    what a file in another form says may be run. None where the kubeconfig can't be read.
    """
    try:
        document = read_first_mapping(kubeconfig)
    except ConfigError:
        return ()
    chosen = _entry_or_nothing(document, "context", context or document.data.get("current-context"))
    parts = [_entry_or_nothing(document, kind, chosen.get(kind)) for kind in ("cluster", "user")]
    names = [part.get(key) for part in parts for key in (*_FILES, "tokenFile")]
    return tuple(path for path in (kubeconfig.parent / str(name) for name in names if name) if _is_credential(path))


def _entry_or_nothing(document: Document, kind: str, name: object) -> Mapping[str, Any]:
    """Empty where there is no such entry, which is an error only for what uses it."""
    try:
        return entry(document, kind, name)
    except ConfigError:
        return {}


def _is_credential(path: Path) -> bool:
    """Whether a file has the form of a token, or of certificates and keys, and so that of no playbook."""
    try:
        return bool(_CREDENTIAL.fullmatch(read_plain(path)))
    except OSError:
        return False
