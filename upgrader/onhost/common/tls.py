"""HTTPS with a verified certificate, to one address under one name; and HTTP, to this host itself."""

from __future__ import annotations

import http.client
import socket
import ssl

from upgrader.onhost.common.questions import SECONDS, Failed

UNVERIFIED = "its certificate can't be verified: "
"""In a reason: something answers there, and may serve those who verify it by other means."""


def context(authority: str) -> ssl.SSLContext:
    """TLS that trusts one CA only, also one that another has issued, as Kubernetes' own programs do. Strict checks of
    form are off: kubeadm's older CAs wouldn't pass those of 3.13.
    """
    made = ssl.create_default_context(cadata=authority)
    made.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    made.verify_flags |= getattr(ssl, "VERIFY_X509_PARTIAL_CHAIN", 0x80000)  # OpenSSL's; Python names it from 3.10 on
    return made


def get(
    tls: ssl.SSLContext, address: str, port: int, name: str, path: str, body: str | None = None, token: str = ""
) -> tuple[int, str]:
    """Status and text of a GET, or of a POST when there is a body; `token` authenticates. Raises Failed, and why."""
    try:
        connected = socket.create_connection((address, port), timeout=SECONDS)
        with connected:
            link = tls.wrap_socket(connected, server_hostname=name)
            with link:
                connection = http.client.HTTPConnection(address, port, timeout=SECONDS)
                connection.sock = link
                headers = {"Authorization": "Bearer " + token} if token else {}
                connection.request("GET" if body is None else "POST", path, body=body, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read(1 << 20).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"{address}:{port}: {_words(error)}") from error


def plain(address: str, port: int, path: str, body: str | None = None) -> tuple[int, str]:
    """Status and text of a GET, or of a POST when there is a body, without TLS. Raises Failed with the reason."""
    try:
        connection = http.client.HTTPConnection(address, port, timeout=SECONDS)
        connection.request("GET" if body is None else "POST", path, body=body)
        answer = connection.getresponse()
        return answer.status, answer.read(1 << 20).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"{address}:{port}: {_words(error)}") from error


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return UNVERIFIED + error.verify_message
    if isinstance(error, socket.timeout):
        return f"no answer within {SECONDS:.0f} s"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
