"""The versions that an upgrade goes through: Kubernetes supports one minor version at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import chain, islice

from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

__all__ = ["newest_patches", "upgrade_path"]


def upgrade_path(
    server: KubernetesVersion,
    target: KubernetesVersion,
    through: Sequence[KubernetesVersion] = (),
    most: int | None = None,
) -> tuple[KubernetesVersion, ...]:
    """The version of each hop of an upgrade from the running `server` to `target`, which is the last one; only the
    first `most`.

    One version for each minor between them: the one of `through` with that minor, or else the newest patch that this
    upgrader knows. Raises UsageError if there is neither, or if the target has another major version.
    """
    if server.major != target.major:
        raise UsageError(
            f"can't upgrade from {server} to {target}: upgrades across major versions are not supported",
            remedy=f"Choose a v{server.major} release (`--to`, or kubernetesVersion in upgrader.yaml).",
        )
    chosen = {version.minor: version for version in through if version.major == target.major}
    between = (
        chosen.get(minor) or _newest_patch(server.major, minor, target)
        for minor in range(server.minor + 1, target.minor)
    )
    # An unknown release matters only to an upgrade that goes that far.
    return tuple(islice(chain(between, (target,)), most))


def _newest_patch(major: int, minor: int, target: KubernetesVersion) -> KubernetesVersion:
    known = newest_patches().get((major, minor))
    if known is None:
        raise UsageError(
            f"the upgrade to {target} goes through v{major}.{minor}, but no release of that minor is known",
            remedy=f"Set one in upgrader.yaml: `through: [v{major}.{minor}.X]`.",
        )
    return known


@cache
def newest_patches() -> Mapping[tuple[int, int], KubernetesVersion]:
    """The newest patch of each minor when the table was made (`make patches`), by (major, minor)."""
    text = resources.files("upgrader.model").joinpath("newest_patches.json").read_text(encoding="utf-8")
    versions = map(KubernetesVersion.parse, json.loads(text)["versions"])
    return {(version.major, version.minor): version for version in versions}
