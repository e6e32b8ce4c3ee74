"""Masks what looks like a secret: by its form, or by the name before it."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["MASK", "is_secret_name", "mask_patterns"]

MASK = "[masked]"

_NAMES = (
    r"password|passwd|passphrase|(?:ssh|become|sudo)[_-]?pass|(?<=_)pass(?![a-z])|secret|token|api[_-]?key|access[_-]?key"
    r"|secret[_-]?key|private[_-]?key|encryption[_-]?key|client[_-]key[_-]data"
)
_SECRET_NAME = re.compile(rf"(?i)(?:.*[a-z0-9_.-])?(?:{_NAMES}|pwd)|auth|pass")
_REFERENCE = re.compile(r"(?i)(?:existing|pull|tls|image)[_-]?secrets?|secret")
"""Names whose value is the name of a Secret."""

_NO_PATH = r"(?!/(?:etc|var|run|home|root|opt|usr|tmp|srv)/)"
_UNQUOTED = r"(?:\\[^\"'nrt]|[^\s\"',;\\&)}\]]){4,}"
_TELLING = r"(?=[^\s\"',;\\]{0,19}[0-9A-Z]|[^\s\"',;\\]{20})"
"""Not a plain word: `token: expired` is a message."""

# Authors of logs and events choose the text. If a pattern can begin again within a part that it repeats, the repeat
# has a limit: without one, the time would grow with the square of the text's length.
_FAR = 1024

_PASSWORD_WORDS = ("passw", "passp", "_pass", "-pass", "sshpass", "becomepass", "sudopass")
_KEYS = tuple(
    f"{whose}{between}key"
    for whose in ("api", "access", "private", "encryption", "client")
    for between in ("", "_", "-")
)
_NAME_WORDS = (*_PASSWORD_WORDS, "secret", "token", *_KEYS)
"""Each of `_NAMES` has one of them; `GatePassed`, which is in every second line of a journal, has none."""

# Words, pattern, replacement. Text that has none of the words, in whatever case, can't match: most text has none, and a
# search for a word takes a hundredth of a pattern's time. "" is in every text.
_PATTERNS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # A whole PEM block, or one whose end was cut off; never past a quote, so that JSON stays JSON.
    (
        ("private key",),
        (
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[^\"]*?"
            r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z|(?=\"))"
        ),
        MASK,
    ),
    (
        ("private key",),
        r"\A(?:[A-Za-z0-9+/=\s]|\\n)*-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----",
        MASK,
    ),
    (
        ("bearer",),
        r"\b((?i:bearer)\s+)(?!(?i:authenti|authori|credential))[A-Za-z0-9._~+/=-]{8,}",
        rf"\1{MASK}",
    ),
    (("basic",), r"\b((?i:basic)\s+)(?=\S*(?:[0-9=]|[a-z][A-Z]))[A-Za-z0-9+/=]{8,}", rf"\1{MASK}"),
    # age's private keys.
    (("secret",), r"(?i)\bAGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{4,}", MASK),
    # JSON Web Tokens: service accounts' and OIDC's.
    (("eyj",), rf"\beyJ[A-Za-z0-9_-]{{5,{_FAR}}}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?", MASK),
    # kubeadm's bootstrap tokens.
    ((".",), r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", MASK),
    # What providers issue: GitHub, GitLab, Slack, AWS, Google, Docker Hub, Vault.
    (
        ("",),
        (
            r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|dt|rt|cbt)-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
            r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|dckr_pat_[\w-]{16,}|hv[sb]\.[\w-]{20,})"
        ),
        MASK,
    ),
    # Anyone who knows such a URL can post there.
    (
        ("hooks.slack", "discord"),
        (
            r"\b(hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/)[\w/-]{8,}"
        ),
        rf"\1{MASK}",
    ),
    # A password may contain a slash or an @; but `registry:5000/image@sha256:…` has a port.
    (("://",), rf"(://[^/\s:@\"']*:)(?!\d+/)[^\s\"']{{1,{_FAR}}}@", rf"\1{MASK}@"),
    (("://",), r"(://)[^/\s:@\"']{20,}@", rf"\1{MASK}@"),
    (("auth",), r"(\\?\"auth\\?\"\s*:\s*\\?\")[A-Za-z0-9+/=]{8,}", rf"\1{MASK}"),
    # NAME="…", also in JSON inside JSON; a value in double quotes may contain single ones.
    *(
        (
            _NAME_WORDS,
            rf"(?i)((?:{_NAMES})\\?[\"']?\s*[=:]\s*\\?{quote}){_NO_PATH}[^{others}\\]{{4,}}(?=\\?{quote})",
            rf"\1{MASK}",
        )
        for quote, others in (('"', '"'), ("'", "\"'"))
    ),
    (
        ("curl",),
        r"(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[\s=]?\s*[\"']?[^\s:\"']{1,200}:)[^\s\"'\\]+",
        rf"\1{MASK}",
    ),
    (_NAME_WORDS, rf"(?i)((?:{_NAMES})[\"']?=)(?!\[masked\]){_NO_PATH}{_UNQUOTED}", rf"\1{MASK}"),
    (
        ("pass",),
        rf"(?i)(pass(?:word|wd|phrase)?\s*:\s*)(?!\[masked\]){_NO_PATH}{_UNQUOTED}",
        rf"\1{MASK}",
    ),
    (
        _NAME_WORDS,
        rf"((?i:{_NAMES})\s*[:=]\s*)(?!\[masked\]){_NO_PATH}{_TELLING}{_UNQUOTED}",
        rf"\1{MASK}",
    ),
    # --password X; but not `--token must be set`.
    (
        ("pass",),
        (
            r"((?<!\w)--(?i:[a-z0-9-]{0,40}pass(?:word|wd|phrase)?)\s+)(?!-|\[masked\])"
            rf"(?!(?:must|requires|needs|cannot|option|flag|with|from)\b){_NO_PATH}{_UNQUOTED}"
        ),
        rf"\1{MASK}",
    ),
    (
        _NAME_WORDS,
        rf"((?<!\w)--(?i:[a-z0-9-]{{0,40}}(?:{_NAMES}))\s+)(?!-|\[masked\]){_NO_PATH}{_TELLING}{_UNQUOTED}",
        rf"\1{MASK}",
    ),
)


def mask_patterns(text: str) -> str:
    """The text with tokens, passwords and private keys replaced; when in doubt, it masks."""
    folded = text.casefold()
    for words, pattern, replacement in _PATTERNS:
        if any(word in folded for word in words):
            text = _compiled(pattern).sub(replacement, text)
    return text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When it is first needed: all of them take a sixth of the time that `--help` has."""
    return re.compile(pattern)


def is_secret_name(name: str) -> bool:
    """Whether a key, variable or flag of this name has a secret as its value, and not just the name of a Secret."""
    return bool(_SECRET_NAME.fullmatch(name)) and not _REFERENCE.fullmatch(name)
