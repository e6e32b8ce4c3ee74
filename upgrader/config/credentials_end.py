"""When the credentials end that a kubeconfig itself contains, and that nothing renews."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from upgrader.config.kubeconfig_entries import entry
from upgrader.config.yaml_document import read_first_mapping

__all__ = ["credentials_end"]


def credentials_end(kubeconfig: Path, context: str = "") -> datetime | None:
    """When a context's token or client certificate expires, in UTC; None for those that don't say.

    A plugin's, and those in files, are replaced by the program that wrote them. No plugin is run for this: it may ask
    for a password. Raises ConfigError.
    """
    document = read_first_mapping(kubeconfig)
    chosen = entry(document, "context", context or document.data.get("current-context"))
    user = entry(document, "user", chosen["user"]) if chosen.get("user") else {}
    # The API server ignores a token beside a client certificate.
    if certificate := user.get("client-certificate-data"):
        return _of_certificate(certificate)
    if user.get("client-certificate") or user.get("tokenFile"):
        return None
    return _of_token(user.get("token"))


def _of_certificate(data: Any) -> datetime | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(base64.b64decode(str(data))).not_valid_after_utc
    except ValueError:
        return None


def _of_token(token: Any) -> datetime | None:
    """Of a JWT, as ServiceAccounts and OIDC providers issue. Any other says nothing."""
    parts = str(token or "").split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return None
