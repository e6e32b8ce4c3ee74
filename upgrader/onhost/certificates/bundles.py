"""Certificates of CAs in texts: PEM files, and kubeconfigs. Pure; the rest of a text stays unchanged."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable

__all__ = ["added", "certificates", "fingerprint", "in_kubeconfig", "named_files", "removed", "trusted_by"]

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----[ \t\r]*\n?", re.DOTALL)
_DATA = re.compile(r"(certificate-authority-data[\"']?[ \t]*:[ \t]*[\"']?)([A-Za-z0-9+/=]+)")
_FILE = re.compile(r"certificate-authority[\"']?[ \t]*:[ \t]*[\"']?([^\s\"',}]+)")


def certificates(text: str) -> list[str]:
    """Each certificate in it, as PEM with its final newline; truncated ones are left out."""
    return [match.group().rstrip() + "\n" for match in _PEM.finditer(text) if _der(match)]


def fingerprint(pem: str) -> str:
    """The SHA-256 of the first certificate in it, in hexadecimal. Raises ValueError if there is none."""
    match = _PEM.search(pem)
    if match is None or not (der := _der(match)):
        raise ValueError("it contains no certificate")
    return hashlib.sha256(der).hexdigest()


def added(text: str, pem: str) -> str:
    """The text with a certificate appended: the existing text stays byte for byte."""
    if fingerprint(pem) in [fingerprint(each) for each in certificates(text)]:
        return text
    return text + ("" if text.endswith("\n") or not text else "\n") + certificates(pem)[0]


def removed(text: str, which: str) -> str:
    """The text without the certificates of this fingerprint."""
    return _PEM.sub(lambda match: "" if _of(match) == which else match.group(), text)


def in_kubeconfig(text: str, change: Callable[[str], str]) -> str:
    """A kubeconfig with `change` applied to each cluster's CA data, as PEM."""

    def changed(match: re.Match[str]) -> str:
        before = _decoded(match.group(2))
        after = change(before)
        return match.group() if after == before else match.group(1) + base64.b64encode(after.encode()).decode()

    return _DATA.sub(changed, text)


def trusted_by(text: str) -> list[list[str]]:
    """The fingerprints of the CAs that a kubeconfig trusts, for each cluster in it that has them as data."""
    found = (certificates(_decoded(match.group(2))) for match in _DATA.finditer(text))
    return [[fingerprint(each) for each in pems] for pems in found]


def named_files(text: str) -> list[str]:
    """The files of CAs that a kubeconfig names."""
    return _FILE.findall(text)


def _decoded(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return ""


def _der(match: re.Match[str]) -> bytes:
    try:
        return base64.b64decode("".join(match.group(1).split()), validate=True)
    except (ValueError, binascii.Error):
        return b""


def _of(match: re.Match[str]) -> str:
    return hashlib.sha256(_der(match)).hexdigest()
