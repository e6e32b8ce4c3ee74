"""A run without the names of hosts and people and without addresses, for artifacts that others can download.

Each is replaced by the same word wherever it appears, so that the report can still be followed. Names of hosts are
those that the journal and the caller know; everything else is found by its form. Versions, names of releases, steps,
gates and Kubernetes objects stay: a name that only a user's own objects have is not recognized.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any

from upgrader.engine.state.run_state import RunState

__all__ = ["redacted"]

_FORMS = (
    r"(?P<person>(?<![\w.+-])[\w.+-]+@(?!sha256:)[\w-]+(?:\.[\w-]+)*)"
    r"|(?P<home>/home/[^/\s'\"]+)"
    r"|(?P<v4>(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.-]*\w))"
    r"|(?P<v6>(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?:%\w+)?(?![\w:]))"
    r"|(?P<domain>(?<![\w.@-])(?:[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\.){1,10}[a-z][a-z0-9-]*[a-z0-9](?![\w-]))"
)
_PUBLIC = re.compile(
    r"(?:.*\.)?(?:k8s\.io|kubernetes\.io|docker\.io|quay\.io|ghcr\.io|gcr\.io|github\.com|helm\.sh|upgrader\.io"
    r"|svc|cluster\.local)"
)
_FILE = re.compile(
    r".*\.(?:ya?ml|jsonl?|crt|key|pem|conf|md|html|xml|sh|py|go|log|sock|service|socket|tgz|gz|txt|j2|timer|mount|target)"
)
_KEPT = frozenset(["phase", "outcome", "kind", "on_failure", "was", "now"])
"""Fields with upgrader's own words, which stay even if a host has the same name."""


def redacted(state: RunState, hosts: Collection[str] = ()) -> RunState:
    """The state with every name and address replaced; `hosts` are names that its journal may not have by themselves."""
    replacer = _Replacer((*hosts, *_hosts_of(state)), {approval.by for approval in state.approvals})
    result: RunState = replacer.value(state)
    return result


def _hosts_of(state: RunState) -> Iterator[str]:
    """The hosts that a journal names as such."""
    if state.health_before is not None:
        yield from state.health_before.workers
    for step in state.steps:
        if step.restore_point is not None:
            yield from (item.node for item in step.restore_point.nodes)


class _Replacer:
    """Replaces everything in one pass, so that nothing is replaced twice."""

    def __init__(self, hosts: Collection[str], people: Collection[str]) -> None:
        """`people` are names as their bearers gave them; one with an @ is found by its form."""
        # The longest first: `node-10.example` before `node-10`. A pod's name may end in its node's.
        names = sorted({name for name in hosts if name}, key=lambda name: (-len(name), name))
        given = {name for name in people if name and "@" not in name}
        self._pattern = re.compile(_known("name", given) + _known("host", names) + _FORMS)
        self._aliases: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        for name in sorted(set(names)):
            self._alias("host", name)

    def value(self, value: Any) -> Any:
        """A part of a state, with its texts replaced."""
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self._pattern.sub(self._replacement, value)
        if isinstance(value, tuple):
            return tuple(map(self.value, value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = (field.name for field in dataclasses.fields(value) if field.name not in _KEPT)
            return dataclasses.replace(value, **{name: self.value(getattr(value, name)) for name in fields})
        return value

    def _replacement(self, found: re.Match[str]) -> str:
        text = found[0]
        match found.lastgroup:
            case "host":
                return self._alias("host", text)
            case "name":
                return self._alias("person", text)
            case "person":
                user, _, host = text.partition("@")
                return f"{self._alias('person', user)}@{self._alias('host', host)}"
            case "home":
                return f"/home/{self._alias('person', text.removeprefix('/home/'))}"
            case "v4" | "v6":
                return self._alias("address", text) if _is_public_address(text) else text
            case _:
                return self._alias("domain", text) if _is_domain(found) else text

    def _alias(self, kind: str, name: str) -> str:
        key = (kind, name)
        if key not in self._aliases:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._aliases[key] = f"{kind}-{self._counts[kind]}"
        return self._aliases[key]


def _known(group: str, names: Collection[str]) -> str:
    """The alternatives of a pattern that find these names, the longest ones first."""
    known = "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))
    return rf"(?P<{group}>(?<![A-Za-z0-9])(?:{known})(?![A-Za-z0-9]))|" if known else ""


def _is_public_address(text: str) -> bool:
    """Whether it is an address, and not one that every machine has. A time of day (`10:00:04`) is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def _is_domain(found: re.Match[str]) -> bool:
    """With one dot, only where a port, a path or a URL's slashes are beside it: `backup.none` is a check's id."""
    text, whole = found[0], found.string
    if _PUBLIC.fullmatch(text) or _FILE.fullmatch(text):
        return False
    after, before = whole[found.end() : found.end() + 2], whole[: found.start()]
    beside = after.startswith("/") or re.match(r":\d", after) is not None or before.endswith("://")
    return text.count(".") > 1 or beside
