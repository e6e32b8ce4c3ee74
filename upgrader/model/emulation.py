"""The minor that a component emulates, as its flags ask for it and as `/version` reports it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from upgrader.contract.flags import command_line, values
from upgrader.errors import UsageError
from upgrader.model.api_lifecycle import Minor
from upgrader.model.manifest import objects_in
from upgrader.model.version import KubernetesVersion

__all__ = ["ServerVersion", "compatible_with", "emulated_by", "emulated_in", "minor_of", "minor_text"]

_VALUE = re.compile(r"(?:kube=)?v?(\d+)\.(\d+)")
"""One item of either flag. Items of other components, such as `wardle=1.2`, are ignored."""


_MENTIONED = re.compile("--emulated[-_]version")


@dataclass(frozen=True)
class ServerVersion:
    """What an API server reports at `/version`."""

    binary: KubernetesVersion
    emulated: Minor | None = None
    """The minor whose APIs and features it has; None if it doesn't say, as before v1.34."""
    compatible: Minor | None = None
    """The oldest minor beside which it may serve; None if it doesn't say."""

    @classmethod
    def parse(cls, text: str) -> ServerVersion:
        """Raises ValueError for anything that isn't a mapping of such fields."""
        try:
            found = json.loads(text)
            binary = KubernetesVersion.parse(str(found["gitVersion"]))
            return cls(binary, _reported(found, "emulation"), _reported(found, "minCompatibility"))
        except (KeyError, TypeError, RecursionError, UsageError) as error:
            raise ValueError(f"not a Kubernetes version: {error}") from error

    @property
    def serves_as(self) -> KubernetesVersion:
        """The version whose APIs it serves: its own, or the first of the minor that it emulates."""
        if self.emulated in (None, minor_of(self.binary)):
            return self.binary
        assert self.emulated is not None
        return KubernetesVersion(*self.emulated, 0)


def emulated_by(arguments: Iterable[str]) -> Minor | None:
    """The minor that these flags have a component emulate; None for its own minor."""
    return _asked(arguments, "emulated-version")


def compatible_with(arguments: Iterable[str]) -> Minor | None:
    """The oldest minor with which these flags keep a component compatible; None: the one before the emulated."""
    return _asked(arguments, "min-compatibility-version")


def emulated_in(manifest: str) -> Minor | None:
    """The oldest minor that a component of this manifest's Deployments emulates; None if none emulates."""
    if not _MENTIONED.search(manifest):
        return None
    found = [
        emulated_by(command_line(container))
        for item in objects_in(manifest).values()
        if item["kind"] == "Deployment"
        for container in item["spec"]["template"]["spec"]["containers"]
    ]
    return min((minor for minor in found if minor is not None), default=None)


def minor_of(version: KubernetesVersion) -> Minor:
    """(1, 36)"""
    return version.major, version.minor


def minor_text(minor: Minor) -> str:
    """`1.36`, as the flags and the charts write it."""
    return ".".join(map(str, minor))


def _asked(arguments: Iterable[str], flag: str) -> Minor | None:
    items = [item for given in values(arguments).get(flag, ()) for item in given.split(",")]
    found = [match for match in map(_VALUE.fullmatch, items) if match]
    return (int(found[-1][1]), int(found[-1][2])) if found else None


def _reported(found: dict[str, object], what: str) -> Minor | None:
    """From `36` or `36+`, as vendors mark a minor of their own. Raises ValueError if it isn't a number."""
    major, minor = found.get(f"{what}Major"), found.get(f"{what}Minor")
    return (int(str(major)), int(str(minor).removesuffix("+"))) if major and minor else None
