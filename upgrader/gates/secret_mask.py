"""Masks what looks like a secret in text from others: log lines, events, container messages."""

from __future__ import annotations

import re

__all__ = ["mask_secrets"]

_MASK = "[masked]"

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A whole PEM block, or one whose end was cut off.
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), _MASK),
    (re.compile(r"(?s)\A(?:[A-Za-z0-9+/=\s]|\\n)*-----END [A-Z ]*PRIVATE KEY-----"), _MASK),
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1\2{_MASK}"),
    # JSON Web Tokens: service accounts' and OIDC's.
    (re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"), _MASK),
    # kubeadm's bootstrap tokens.
    (re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"), _MASK),
    (re.compile(r"(://[^/\s:@]+:)[^/\s@]+@"), rf"\1{_MASK}@"),
    (
        re.compile(
            r"""(?i)\b((?:[a-z0-9_-]*(?:password|passwd|secret|api[_-]?key|token))["']?\s*[=:]\s*["']?)[^\s"',;]{4,}"""
        ),
        rf"\1{_MASK}",
    ),
)


def mask_secrets(text: str) -> str:
    """The text with tokens, passwords and private keys replaced; rather masks too much than too little."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
