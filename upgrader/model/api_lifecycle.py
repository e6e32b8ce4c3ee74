"""The minors in which Kubernetes serves each of its own kinds, from the table beside this file.

`scripts/api_lifecycle.py` makes the table (`make apis`). It lacks `rbac.authorization.k8s.io/v1alpha1` and
`node.k8s.io/v1alpha1`, because Kubernetes' sources don't say when these end, and v1 Endpoints, which are deprecated
without a date of removal. It doesn't have what a cluster's own flags enable or disable (alpha kinds, and beta kinds
since v1.24).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from upgrader.model.version import KubernetesVersion

__all__ = ["ApiLifecycle", "Minor", "ends_between", "known_apis", "newest_known", "parse_minor", "replacement_at"]

Minor = tuple[int, int]
"""(1, 25)"""

_NEWEST = re.compile(r"k8s\.io/api v(\d+)\.(\d+)\.\d+")
"""The module's version is Kubernetes' version without its major, 1."""
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


@dataclass(frozen=True)
class ApiLifecycle:
    """One kind of one group and version. A minor is None if it isn't known or not planned."""

    api_version: str
    kind: str
    introduced: Minor | None = None
    deprecated: Minor | None = None
    removed: Minor | None = None
    replacement: str = ""
    """The successor that Kubernetes names: `apps/v1 Deployment`. It may itself be removed by now."""

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"

    def served_by(self, version: KubernetesVersion) -> bool:
        """Whether a version serves it, as far as its minor decides. A planned removal doesn't count yet."""
        minor = (version.major, version.minor)
        if self.introduced is not None and self.introduced > minor:
            return False
        return self.removed is None or minor < self.removed or self.removed > newest_known()

    def deprecated_by(self, version: KubernetesVersion) -> bool:
        """Whether a version serves it and warns of its removal."""
        deprecated = self.deprecated is not None and self.deprecated <= (version.major, version.minor)
        return deprecated and self.served_by(version)


@cache
def known_apis() -> Mapping[tuple[str, str], ApiLifecycle]:
    """Every kind in the table, by (apiVersion, kind)."""
    text = (files(__package__) / "api_lifecycle.json").read_text()
    rows = (_read(row) for row in json.loads(text)["apis"])
    return {(row.api_version, row.kind): row for row in rows}


@cache
def newest_known() -> Minor:
    """The minor from whose sources the table was made. Later removals are plans, and plans change."""
    made = json.loads((files(__package__) / "api_lifecycle.json").read_text())["made"]
    versions = (_NEWEST.fullmatch(line) for line in made)
    return max((int(found[1]) + 1, int(found[2])) for found in versions if found)


def ends_between(api_version: str, before: KubernetesVersion, after: KubernetesVersion) -> bool:
    """Whether Kubernetes serves a group and version in one version, and no kind of it in another."""
    kinds = [api for api in known_apis().values() if api.api_version == api_version]
    return any(api.served_by(before) for api in kinds) and not any(api.served_by(after) for api in kinds)


def replacement_at(api: ApiLifecycle, version: KubernetesVersion) -> ApiLifecycle | None:
    """The most stable API that `version` serves for the same kind, not deprecated if possible; None if there is none.

    The named replacement gives group and kind only, as its own version may be removed or not exist yet. Without a named
    replacement it is the same kind in the same group.
    """
    named, _, kind = (api.replacement or str(api)).partition(" ")
    group = named.rpartition("/")[0]
    choices = [
        other
        for other in known_apis().values()
        if other.kind == kind
        and other.api_version.rpartition("/")[0] == group
        and other.served_by(version)
        and other != api
    ]
    return max(choices, key=lambda other: (not other.deprecated_by(version), _stability(other)), default=None)


def _stability(api: ApiLifecycle) -> tuple[int, int, int]:
    """Greater for the version that Kubernetes prefers: v2, v1, v1beta2, v1beta1, v1alpha1."""
    found = _VERSION.fullmatch(api.api_version.rpartition("/")[2])
    major, stage, minor = found.groups() if found else ("0", "alpha", "0")
    return {None: 2, "beta": 1}.get(stage, 0), int(major), int(minor or 0)


def _read(row: Mapping[str, str]) -> ApiLifecycle:
    introduced, deprecated, removed = (parse_minor(row.get(key, "")) for key in ("introduced", "deprecated", "removed"))
    return ApiLifecycle(row["apiVersion"], row["kind"], introduced, deprecated, removed, row.get("replacement", ""))


def parse_minor(text: str) -> Minor | None:
    """A minor as the tables have it, `1.25`; None stays None."""
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if text else None
