"""Which CA has issued each certificate of this host, identified by the CA's key: all CAs of a cluster have one name."""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
from collections.abc import Iterable

from upgrader.onhost.certificates.bundles import certificates, fingerprint
from upgrader.onhost.certificates.renewed_by_kubeadm import KUBECONFIGS, PAIRS

__all__ = ["KUBELET", "OF_THE_CA", "client_file", "issued", "issuer"]

KUBELET = "kubelet"
"""Names the kubelet's client certificate, for which kubeadm has no name."""
OF_THE_CA = ("apiserver", "apiserver-kubelet-client", *KUBECONFIGS)
"""kubeadm's names of the certificates that the cluster's CA issues."""

_SUBJECT_KEY, _AUTHORITY_KEY = bytes.fromhex("0603551d0e"), bytes.fromhex("0603551d23")
_CRITICAL = bytes.fromhex("0101ff")
_OCTETS, _SEQUENCE, _KEY_ID, _LONG, _VERSION = 0x04, 0x30, 0x80, 0x80, 0xA0
_ISSUER, _SUBJECT = 2, 4
"""Their positions in a certificate, after its version."""
_DATA = re.compile(r"client-certificate-data[\"']?[ \t]*:[ \t]*[\"']?([A-Za-z0-9+/=]+)")
_FILE = re.compile(r"client-certificate[\"']?[ \t]*:[ \t]*[\"']?([^\s\"',}]+)")
_SERVING = "kubelet-server-current.pem"


def issued(kubernetes: str, pki: str, authorities: Iterable[str]) -> list[dict[str, str]]:
    """`name` (kubeadm's, KUBELET, or "": neither knows it), `path` and `by`, for each certificate of this host.

    `by` is the fingerprint of the CA, among these (PEM), that has issued it; "" if none has.
    """
    known = [pem for pem in authorities if pem]
    found = []
    for name, base in PAIRS.items():
        path = os.path.join(pki, base + ".crt")
        if os.path.isfile(path):
            found.append((name, path, _text(path)))
    for name in sorted(os.listdir(kubernetes)):
        path = os.path.join(kubernetes, name)
        if name.endswith(".conf") and os.path.isfile(path):
            found += [(name if name in KUBECONFIGS else "", path, text) for text in _inside(_text(path))]
    current = client_file(os.path.join(kubernetes, "kubelet.conf"))
    if current:
        found.append((KUBELET, current, _text(current)))
        serving = os.path.join(os.path.dirname(current), _SERVING)
        if os.path.isfile(serving):
            found.append(("", serving, _text(serving)))
    return [{"name": name, "path": path, "by": issuer(text, known)} for name, path, text in found]


def client_file(kubelet_conf: str) -> str:
    """The file with the kubelet's certificate and key; "" if its kubeconfig names no existing file."""
    for path in _FILE.findall(_text(kubelet_conf)) if os.path.isfile(kubelet_conf) else ():
        path = os.path.join(os.path.dirname(kubelet_conf), path)
        if os.path.isfile(path):
            return path
    return ""


def issuer(text: str, authorities: Iterable[str]) -> str:
    """The fingerprint of the CA, among these (PEM), that has issued the first certificate in a text; "": none has."""
    known = {_signer(pem, _SUBJECT_KEY, _SUBJECT): fingerprint(pem) for pem in authorities}
    found = certificates(text)
    return known.get(_signer(found[0], _AUTHORITY_KEY, _ISSUER), "") if found else ""


def _signer(pem: str, key: bytes, name: int) -> bytes:
    """The identity of a CA: the identifier of its key, or its name if it has none; etcd's CA and the front proxy's CA
    have other names.
    """
    return _key_of(pem, key) or _name_of(pem, name)


def _name_of(pem: str, which: int) -> bytes:
    """The issuer's or the subject's name, as it is encoded; b"": it can't be read."""
    left = _content(_content(ssl.PEM_cert_to_DER_cert(pem.strip()), _SEQUENCE), _SEQUENCE)
    fields = []
    while len(left) > 1:
        _, end = _extent(left)
        fields.append(left[:end])
        left = left[end:]
    if fields and fields[0][0] == _VERSION:  # certificates of the first version don't say it
        del fields[0]
    return fields[which] if which < len(fields) else b""


def _key_of(pem: str, which: bytes) -> bytes:
    """The identifier of a CA's own key, or of its issuer's key; b"": it has none, as with old CAs."""
    der = ssl.PEM_cert_to_DER_cert(pem.strip())
    at = der.rfind(which)
    if at < 0:
        return b""
    value = der[at + len(which) :]
    if value.startswith(_CRITICAL):
        value = value[len(_CRITICAL) :]
    inner = _content(value, _OCTETS)
    if which == _SUBJECT_KEY:
        return _content(inner, _OCTETS)
    return _content(_content(inner, _SEQUENCE), _KEY_ID)


def _content(value: bytes, tag: int) -> bytes:
    """The content of the first element, if that has this tag."""
    if len(value) < 2 or value[0] != tag:
        return b""
    start, end = _extent(value)
    return value[start:end]


def _extent(value: bytes) -> tuple[int, int]:
    """The start and end of the first element's content."""
    size, start = value[1], 2
    if size & _LONG:
        start = 2 + (size & ~_LONG)
        size = int.from_bytes(value[2:start], "big")
    return start, start + size


def _inside(text: str) -> list[str]:
    found = []
    for data in _DATA.findall(text):
        try:
            found.append(base64.b64decode(data, validate=True).decode("latin-1"))
        except (ValueError, binascii.Error):
            continue
    return found


def _text(path: str) -> str:
    with open(path, encoding="latin-1") as file:
        return file.read()
