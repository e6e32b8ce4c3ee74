"""Keys that touch no disk."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from testkit.certificates import Authority
from upgrader.in_cluster.shared.tls_in_memory import load_cert_chain


def test_a_key_is_used_only_with_its_certificate(tmp_path: Path) -> None:
    """A pair is loaded from memory; a key of another certificate is refused."""
    authority = Authority(tmp_path / "ca")
    for name in ("one", "other"):
        authority.issue(tmp_path / name, name)
    one, other = ((tmp_path / f"{name}.pem").read_bytes() for name in ("one", "other"))
    key = (tmp_path / "one.key").read_bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_cert_chain(context, one, key)
    with pytest.raises(ssl.SSLError):
        load_cert_chain(context, other, key)
