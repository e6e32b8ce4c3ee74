"""The literal secrets that this process has seen, masked wherever they appear: no pattern recognises `hunter22`.

They are learned from their sources: Secrets that a release renders, values and variables with the name of a secret, the
operator's kubeconfig, inventory and environment. They are kept in memory only.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from upgrader.model.redaction.patterns import MASK, is_secret_name

__all__ = ["KNOWN", "KnownSecrets", "secrets_in"]

_SURE_CHARACTERS = 8
"""A shorter secret is masked only as a whole word."""
_LEAST_CHARACTERS = 6
"""Still shorter ones would mask half of every message."""
_LINE_CHARACTERS = 16
_PLAIN = re.compile(r"[a-z]{1,11}|[a-z]+(?:[-.][a-z]+)+|\d{1,9}|/[\w./-]*", re.IGNORECASE)
"""Words, names of objects, numbers and paths: a secret only under a name that says so."""
_PUBLIC_KEYS = frozenset(
    [
        "namespace",
        "username",
        "user",
        "host",
        "hostname",
        "server",
        "port",
        "type",
        "database",
        "dbname",
        "region",
        "bucket",
        "endpoint",
        "email",
        "token-id",
        "expiration",
        "description",
        "auth-extra-groups",
    ]
)
"""Keys of Secrets that accompany a secret and aren't one."""


class KnownSecrets:
    """A set of literal secrets."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._here = threading.local()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What this thread learns in this context is masked only here: whose secrets these are may have chosen words
        that all others need.
        """
        before = self._apart
        self._here.known = KnownSecrets()
        try:
            yield
        finally:
            self._here.known = before

    def carried(self, work: Callable[[], None]) -> Callable[[], None]:
        """Work for another thread, which there learns and masks as this thread does now."""
        known = self._apart

        def carry() -> None:
            self._here.known = known
            work()

        return carry

    @property
    def _apart(self) -> KnownSecrets | None:
        known: KnownSecrets | None = getattr(self._here, "known", None)
        return known

    def learn(self, values: Iterable[str]) -> None:
        """Mask these from now on: as they are, line by line, and as base64, URLs and JSON write them."""
        if self._apart is not None:
            self._apart.learn(values)
            return
        before = len(self._forms)
        for value in values:
            self._forms.update(_forms(value))
        if len(self._forms) > before:
            # The longest first: a secret may contain another one.
            ordered = sorted(self._forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_as_pattern, ordered)))

    def mask(self, text: str) -> str:
        """The text without the known secrets."""
        masked = self._pattern.sub(MASK, text) if self._pattern else text
        return self._apart.mask(masked) if self._apart is not None else masked


KNOWN = KnownSecrets()
"""This process's. A global, not an argument: a sink that doesn't get the argument would print secrets."""


def secrets_in(tree: object) -> Iterator[str]:
    """The secrets in a Kubernetes object, a values file, a kubeconfig or variables: by kind, and by name."""
    if isinstance(tree, Mapping):
        if tree.get("kind") == "Secret":
            yield from _of_secret(tree)
            return
        if tree.get("kind") == "EncryptionConfiguration":
            yield from _named(tree, "secret")
        name, value = tree.get("name"), tree.get("value")
        if isinstance(name, str) and isinstance(value, str) and is_secret_name(name):
            yield value  # a container's environment
        for key, item in tree.items():
            if is_secret_name(str(key)):
                yield from _told(item)
            yield from secrets_in(item)
    elif isinstance(tree, Sequence) and not isinstance(tree, str | bytes):
        for item in tree:
            yield from secrets_in(item)


def _told(item: object) -> Iterator[str]:
    """The value under the name of a secret: a text, several, or one under `value`."""
    if isinstance(item, str):
        if not item.startswith("/"):
            yield item
    elif isinstance(item, Mapping):
        yield from _told(item.get("value"))
    elif isinstance(item, Sequence) and not isinstance(item, bytes):
        for each in item:
            yield from _told(each)


def _named(tree: object, name: str) -> Iterator[str]:
    """The texts under exactly this name, at any depth: elsewhere, `secret` names a Secret."""
    if isinstance(tree, Mapping):
        for key, item in tree.items():
            if key == name and isinstance(item, str):
                yield item
            yield from _named(item, name)
    elif isinstance(tree, Sequence) and not isinstance(tree, str | bytes):
        for item in tree:
            yield from _named(item, name)


def _of_secret(secret: Mapping[str, Any]) -> Iterator[str]:
    for key, value in (secret.get("stringData") or {}).items():
        yield from _of_key(str(key), str(value))
    for key, value in (secret.get("data") or {}).items():
        coded = str(value)
        try:
            found = list(_of_key(str(key), base64.b64decode(coded, validate=True).decode()))
        except (binascii.Error, UnicodeDecodeError):
            found = [coded]
        # Also as it is written: a line break in it changes the last characters.
        yield from [*found, coded] if found else []


def _of_key(key: str, text: str) -> Iterator[str]:
    """One entry of a Secret; in a structured file (a kubeconfig, a registry login), only its secret parts."""
    inside = _structure(text)
    if inside is not None:
        yield from secrets_in(inside)
        yield base64.b64encode(text.encode()).decode()
        return
    public = key.lower() in _PUBLIC_KEYS or key.endswith(".crt") or text.startswith("-----BEGIN CERTIFICATE")
    if not public and (is_secret_name(key) or not _PLAIN.fullmatch(text.strip())):
        yield text
        # Short lines are a list of users or passwords. The first and last lines of a PEM block are no secret.
        lines = (line.strip() for line in text.strip().splitlines())
        yield from (line for line in lines if _short_secret(line))


def _short_secret(line: str) -> bool:
    plain = line.startswith("-----") or _PLAIN.fullmatch(line)
    return not plain and _SURE_CHARACTERS <= len(line) < _LINE_CHARACTERS


def _structure(text: str) -> Mapping[str, Any] | None:
    if ":" not in text or ("\n" not in text.strip() and not text.lstrip().startswith("{")):
        return None
    import yaml  # not at the top: every command masks its output, and few meet a Secret

    from upgrader.model import limited_yaml

    try:
        found = limited_yaml.load(text)
    except (yaml.YAMLError, ValueError):
        return None
    return found if isinstance(found, Mapping) else None


def _forms(value: str) -> Iterator[str]:
    """The texts that reveal a secret."""
    from urllib.parse import quote  # not at the top: an environment without secrets needs no import

    whole, value = value, value.strip()
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        # Logs and diffs show single lines; the first and last ones of a PEM block are no secret.
        yield from (line for line in lines if len(line) >= _LINE_CHARACTERS and not line.startswith("-----"))
    elif len(value) >= _LEAST_CHARACTERS:
        yield from {value, quote(value, safe=""), json.dumps(value)[1:-1]}
    if len(value) >= _LEAST_CHARACTERS:
        yield from {base64.b64encode(text.encode()).decode() for text in (whole, value)}


def _as_pattern(form: str) -> str:
    literal = re.escape(form)
    return literal if len(form) >= _SURE_CHARACTERS else rf"(?<!\w){literal}(?!\w)"
