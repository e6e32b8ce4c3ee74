"""What kube-apiserver says of an object in etcd that it can't decrypt. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from upgrader.model.log_lines import lasting

__all__ = ["Undecrypted", "is_undecrypted", "undecrypted"]

_UNDECRYPTED = re.compile(
    r"cacher \((?P<resource>[^)]+)\): unexpected ListAndWatch error: .*"
    r"(?:unable to transform key \"(?P<key>[^\"]+)\": "
    r"|corrupt object, Code: \d+, Key: (?P<corrupt>[^,]+), .*data from the storage is not transformable[^:]*: )"
    r"(?P<why>.+?)(?: \(and \d+ more\))?(?:; reinitializing.*)?$"
)
"""Its log has such a line in each second for each resource: until v1.36, and since v1.37 (by the feature gate
AllowUnsafeMalformedObjectDeletion).
"""
_SIGNS = (
    "unable to transform key",
    "data from the storage is not transformable",
    "no matching prefix found",
    "no matching key was found",
)
"""How it says so in an answer; the status is 500. Its exact words: a message also has names of objects and servers."""
_OF_PLUGIN = "failed to decrypt DEK, error: "
"""It asked a KMS plugin, which is away, or whose own service is: that may pass, and an instance that has asked before
goes on with what it remembers. A plugin says by no certain sign that it never had the key.
"""


@dataclass(frozen=True)
class Undecrypted:
    """An object that it has no key for, or another one than the object was encrypted with."""

    resource: str
    """Such as `secrets` or `widgets.example.com`."""
    key: str
    """Where it is in etcd: `/registry/secrets/kube-system/key`."""
    why: str

    def __str__(self) -> str:
        return f"it can't decrypt {self.key} (encryption-provider-config): {self.why}"


def undecrypted(lines: tuple[str, ...]) -> Iterator[Undecrypted]:
    """What it has had no right key for, as of the end of these lines of its log.

    One try is enough where the keys are those of its start (no --encryption-provider-config-automatic-reload). There
    may be no second one among the lines, as since v1.37 each try has up to a hundred others for each resource.
    """
    found: dict[tuple[str, str], list[tuple[str, re.Match[str]]]] = {}
    for line in lines:
        if (match := _UNDECRYPTED.search(line)) and _OF_PLUGIN not in match["why"]:
            found.setdefault((match["resource"], match["key"] or match["corrupt"]), []).append((line, match))
    for (resource, key), failed in found.items():
        if match := lasting(failed, lines, seconds=0):
            yield Undecrypted(resource, key, match["why"].strip())


def is_undecrypted(message: str) -> bool:
    """Whether an answer of kube-apiserver says that it has no right key for an object, which doesn't pass."""
    return _OF_PLUGIN not in message and any(sign in message for sign in _SIGNS)
