"""`upgrader versions`: what a cluster can be upgraded to, and what that takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from upgrader.app.observe_cluster import kubelet_versions, server_version
from upgrader.app.wiring import open_kube
from upgrader.config.load import load_settings
from upgrader.errors import ApiError, ConfigError, UsageError
from upgrader.model.api_lifecycle import Minor, newest_known
from upgrader.model.support_ends import support_ends
from upgrader.model.upgrade_path import newest_patches, upgrade_path
from upgrader.model.version import KUBELET_MINORS, KubernetesVersion
from upgrader.ports import Kube

__all__ = ["Here", "OfferedVersion", "ask", "offered_versions", "read_versions", "where_we_are"]

_SECONDS = 10.0
_RELEASE = re.compile(r"v?\d+\.\d+\.\d+")


@dataclass(frozen=True)
class Here:
    """The version that is upgraded from."""

    version: KubernetesVersion
    source: Literal["cluster", "upgrader.yaml", "--from"]
    kubelets: Mapping[str, KubernetesVersion]
    """By node; empty where no cluster was asked."""
    emulated: Minor | None = None
    """An older minor, whose emulation has to be ended before the next one; None where there is none."""
    problem: str = ""
    """Why the cluster wasn't asked."""


@dataclass(frozen=True)
class OfferedVersion:
    """A version, and what an upgrade to it takes."""

    version: KubernetesVersion
    hops: tuple[KubernetesVersion, ...]
    """Each is a run of its own; the last one is the version."""
    supported_until: date | None
    """The last day with patches; None if it isn't known."""
    old_kubelets: tuple[str, ...]
    """Nodes whose kubelet has to be upgraded before, as it would be too old."""
    known: bool
    """Whether this upgrader knows the minor's APIs; if not, a check blocks the run."""


def where_we_are(folder: Path, chosen: KubernetesVersion | None) -> Here:
    """What the cluster says, or else its folder; `chosen` asks neither. Raises UsageError where there is no folder."""
    if chosen is not None:
        return Here(chosen, "--from", {})
    try:
        with open_kube(folder, _SECONDS) as kube:
            return ask(kube)
    except ApiError as error:
        return Here(load_settings(folder, {}).target, "upgrader.yaml", {}, problem=error.message)


def ask(kube: Kube) -> Here:
    """The same of any cluster. Raises ApiError."""
    server = server_version(kube)
    kubelets = kubelet_versions(kube)
    # An API server that emulates nothing reports its own minor.
    emulated = server.emulated if server.serves_as != server.binary else None
    return Here(server.binary, "cluster", kubelets, emulated)


def read_versions(file: Path) -> tuple[KubernetesVersion, ...]:
    """The releases in a file with one on each line, such as a registry's tags; others are left out."""
    try:
        lines = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}", remedy="Pass a text file with one version per line.") from error
    found = tuple(KubernetesVersion.parse(line) for line in lines if _RELEASE.fullmatch(line))
    if not found:
        raise ConfigError(f"{file}: it contains no version (such as v1.37.1)", remedy="Write one version per line.")
    return found


def offered_versions(here: Here, known: Iterable[KubernetesVersion] | None = None) -> tuple[OfferedVersion, ...]:
    """The newest patch of each minor from here on, oldest first; `known` None: those that this upgrader knows."""
    newest: dict[Minor, KubernetesVersion] = {}
    for version in sorted(newest_patches().values() if known is None else known):
        newest[version.major, version.minor] = version
    through = tuple(newest.values())
    return tuple(
        OfferedVersion(
            version,
            _hops(here.version, version, through),
            support_ends().of(version),
            tuple(sorted(node for node, each in here.kubelets.items() if version.minors_after(each) > KUBELET_MINORS)),
            (version.major, version.minor) <= newest_known(),
        )
        for version in through
        if version > here.version and version.major == here.version.major
    )


def _hops(
    here: KubernetesVersion, target: KubernetesVersion, through: tuple[KubernetesVersion, ...]
) -> tuple[KubernetesVersion, ...]:
    """Empty where a minor in between is on no list."""
    try:
        return upgrade_path(here, target, through)
    except UsageError:
        return ()
