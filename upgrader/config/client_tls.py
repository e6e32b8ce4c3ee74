"""The TLS settings of connections to an API server, with the certificates of a kubeconfig's context."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from upgrader.config.kubeconfig import KubeconfigContext
from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError

__all__ = ["check_pair", "client_tls"]

_CERTIFICATE, _KEY = "client-certificate", "client-key"
_OF_ANOTHER = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""How OpenSSL says that a key isn't the certificate's; the last, where it is of another kind (RSA, ECDSA)."""


def client_tls(context: KubeconfigContext, protocols: Sequence[str]) -> ssl.SSLContext:
    """Verifies the server by the context's CA, or by this machine's if it has none; with its client certificate, if
    any. `protocols` are offered by ALPN. Files are read now, and not again. Raises ConfigError.
    """
    try:
        with _file(context.cluster, "certificate-authority") as authority:
            tls = ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"{shown(context.kubeconfig)}: its {_named(context.cluster, 'certificate-authority')} can't be used: "
            f"{_reason(error)}",
            remedy="Put the cluster's CA there, in PEM format.",
        ) from error
    # Python 3.13 requires RFC 5280's key identifiers, which kubeadm's certificates lack; all else is checked.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As Go: the cluster's CA is trusted by itself, also one that a company's root has issued, which isn't beside it.
    tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    tls.hostname_checks_common_name = False  # as Kubernetes' own clients
    tls.set_alpn_protocols(protocols)
    _load_pair(tls, context.kubeconfig, context.user, context.user)
    return tls


def check_pair(kubeconfig: Path, user: Mapping[str, Any], copied: Mapping[str, Any]) -> None:
    """Raise ConfigError for a client certificate that can't be used with its key; `copied` has the content of both, and
    `user` what is named in the error.
    """
    _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), kubeconfig, user, copied)


def _load_pair(tls: ssl.SSLContext, kubeconfig: Path, user: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    try:
        with _file(content, _CERTIFICATE) as certificate, _file(content, _KEY) as key:
            if certificate is not None:
                tls.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        names = f"{_named(user, _CERTIFICATE)} and {_named(user, _KEY)}"
        if isinstance(error, ssl.SSLError) and error.reason in _OF_ANOTHER:
            problem = f"{names} don't belong together: it may be that only one of them has been replaced so far"
        else:
            problem = f"{names} can't be used: {_reason(error, which='one of them')}"
        raise ConfigError(
            f"{shown(kubeconfig)}: its {problem}",
            remedy="If they are being renewed just now, try again in a minute. Otherwise put a certificate and the key "
            "that it was issued for there, both in PEM format and without a password.",
        ) from error


def _named(section: Mapping[str, Any], key: str) -> str:
    """What a person looks for in a kubeconfig, and the file that it names."""
    if section.get(f"{key}-data"):
        return f"{key}-data"
    return f"{key} ({shown(Path(str(section[key])))})" if section.get(key) else f"{key} (not set)"


def _reason(error: Exception, *, which: str = "it") -> str:
    """Without the place in Python's source, as in `[SSL] PEM lib (_ssl.c:3926)`."""
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        return reason.replace("_", " ").lower() or f"{which} isn't complete, or not in PEM format"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _no_password() -> str:
    """In the place of OpenSSL's prompt, for which a run would wait."""
    raise ValueError("the key is encrypted, which upgrader doesn't support")


@contextlib.contextmanager
def _file(section: Mapping[str, Any], key: str) -> Iterator[str | None]:
    """The name of a file with a PEM, as `ssl` reads keys from files only; None where the kubeconfig has none."""
    if data := section.get(f"{key}-data"):
        try:
            pem = base64.b64decode("".join(str(data).split()), validate=True)  # YAML may have it in several lines
        except binascii.Error as error:
            raise ValueError(f"{key}-data: {error}") from error
        with _memory() as file:
            file.write(pem)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}" if isinstance(file.name, int) else file.name
    elif path := section.get(key):
        yield str(path)
    else:
        yield None


def _memory() -> IO[bytes]:
    """A file that is on no disk, so that no key stays there, also if the process is killed."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("pem"), "wb")
    return tempfile.NamedTemporaryFile()  # not Linux: with a name, for as long as it is read
