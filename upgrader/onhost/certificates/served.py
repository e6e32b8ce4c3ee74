"""Compares the certificate that is served at an address with its file."""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Any

from upgrader.contract.flags import manifest_flags
from upgrader.onhost.common.questions import SECONDS

__all__ = ["served"]

_ETCD = "/etc/kubernetes/manifests/etcd.yaml"
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def served(address: str, port: str, certificate: str, etcd: str = _ETCD) -> dict[str, Any]:
    """`others`: servers whose certificate isn't the one in its file, and why, one line each. Checks kube-apiserver at
    this address, and this host's etcd at the addresses in its manifest.
    """
    asked = [("kube-apiserver", address, int(port), certificate, "")]
    if os.path.exists(etcd):
        with open(etcd, encoding="utf-8", errors="replace") as file:
            asked += _members(file.read())
    lines = []
    for what, host, number, path, key in asked:
        why = _differs(host, number, path, key)
        if why:
            lines.append(f"{what} at {host}:{number}: {why}")
    return {"others": lines}


def _members(manifest: str) -> list[tuple[str, str, int, str, str]]:
    """Each address at which etcd serves, with the files that it serves there."""
    found, flags = [], manifest_flags(manifest)
    for urls, kind in (("listen-client-urls", ""), ("listen-client-http-urls", ""), ("listen-peer-urls", "peer-")):
        certificate, key = flags.get(f"{kind}cert-file"), flags.get(f"{kind}key-file")
        if not (certificate and key):
            continue
        for host, port in re.findall(r"https://(\[[^\]]+\]|[^:,]+):(\d+)", flags.get(urls, "")):
            host = {"0.0.0.0": "127.0.0.1", "[::]": "::1"}.get(host, host.strip("[]"))
            found.append(("etcd", host, int(port), certificate, key))
    return found


def _differs(host: str, port: int, certificate: str, key: str) -> str:
    try:
        with open(certificate, encoding="utf-8", errors="replace") as file:
            pem = _PEM.search(file.read())
        if pem is None:
            return f"{certificate} contains no certificate"
        # Compared with the file, byte for byte, and so not verified; nothing is sent there.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if key:  # etcd asks for one; kubeadm's are good for both sides
            tls.load_cert_chain(certificate, key)
        with socket.create_connection((host, port), timeout=SECONDS) as connected, tls.wrap_socket(connected) as link:
            seen = link.getpeercert(binary_form=True)
    except OSError as error:
        return f"it did not answer: {error}"
    same = seen == ssl.PEM_cert_to_DER_cert(pem.group())
    return "" if same else f"it doesn't serve the certificate in {certificate}"
