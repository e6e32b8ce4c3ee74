"""The paths of the certificates that kubeadm renews, and whether a key matches its certificate."""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
import tempfile

from upgrader.onhost.common.questions import Failed

__all__ = ["KNOWN", "KUBECONFIGS", "PAIRS", "fault", "files_of", "fit"]

PAIRS: dict[str, str] = {
    "apiserver": "apiserver",
    "apiserver-etcd-client": "apiserver-etcd-client",
    "apiserver-kubelet-client": "apiserver-kubelet-client",
    "etcd-healthcheck-client": "etcd/healthcheck-client",
    "etcd-peer": "etcd/peer",
    "etcd-server": "etcd/server",
    "front-proxy-client": "front-proxy-client",
}
"""kubeadm's name of a certificate → its files below the folder of certificates, without their endings."""
KUBECONFIGS = ("admin.conf", "controller-manager.conf", "scheduler.conf", "super-admin.conf")
"""Each contains a certificate and its key."""

KNOWN = frozenset((*PAIRS, *KUBECONFIGS))
"""All certificates that kubeadm renews, by its names."""

_MEMORY = "/run"

_DATA = r"^[ \t-]*%s:[ \t]*[\"']?([A-Za-z0-9+/=]+)"


def files_of(name: str, kubernetes: str, certificates: str) -> list[str]:
    """The files of a certificate by kubeadm's name, its key first. Raises Failed for an unknown name."""
    if name in PAIRS:
        base = os.path.join(certificates, PAIRS[name])
        return [base + ".key", base + ".crt"]
    if name in KUBECONFIGS:
        return [os.path.join(kubernetes, name)]
    raise Failed(f"kubeadm renews {name}, but its path is unknown to this version of upgrader: try a newer one")


def fault(files: list[str]) -> str:
    """Why these files of one certificate can't be used; "" if the key matches it and all other files."""
    try:
        if len(files) > 1:
            for path in files[1:]:
                fit(path, files[0])
            return ""
        with open(files[0], "rb") as file:
            text = file.read().decode("utf-8", "replace")
        pairs = _inside(text)
        if not pairs:
            return f"{files[0]} does not contain a certificate and a key"
        for certificate, key in pairs:
            _fit_text(certificate, key)
    except (OSError, ValueError, binascii.Error) as error:  # an SSLError is an OSError
        return f"{files[-1]}: {getattr(error, 'reason', None) or getattr(error, 'strerror', None) or error}"
    return ""


def fit(certificate: str, key: str) -> None:
    """Raises OSError if the key in a file doesn't match the certificate in another one."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)


def _inside(text: str) -> list[tuple[bytes, bytes]]:
    found = [
        [base64.b64decode(each) for each in re.findall(_DATA % key, text, re.MULTILINE)]
        for key in ("client-certificate-data", "client-key-data")
    ]
    if len(found[0]) != len(found[1]):
        raise ValueError("its certificates and keys don't match")
    return [(certificate, found[1][number]) for number, certificate in enumerate(found[0])]


def _fit_text(certificate: bytes, key: bytes) -> None:
    # Only its owner may enter it; in memory, where there is such a place: a killed process leaves it.
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as folder:
        paths = [os.path.join(folder, name) for name in ("crt", "key")]
        for number, content in enumerate((certificate, key)):
            with open(paths[number], "wb") as file:
                file.write(content)
        fit(*paths)
