"""Certificates and keys that touch no disk."""

from __future__ import annotations

import os
import ssl

__all__ = ["load_cert_chain"]


def load_cert_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use a certificate and its key, both PEM, for connections from now on. Raises ssl.SSLError if they don't match.

    The ssl module takes only files, and a key should touch no disk: memory that has a file name.
    """
    handle = os.memfd_create("certificate")
    try:
        os.write(handle, certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
