"""The versions that an upgrade goes through."""

from __future__ import annotations

import pytest

from scripts.newest_patches import newest_of
from upgrader.errors import UsageError
from upgrader.model.upgrade_path import newest_patches, upgrade_path
from upgrader.model.version import KubernetesVersion as V


@pytest.mark.parametrize("target", [V(1, 36, 3), V(1, 36, 2), V(1, 36, 9), V(1, 37, 1), V(1, 34, 0)])
def test_a_near_target_is_the_only_hop(target: V) -> None:
    """The same version, a patch and the next minor need nothing between; of a downgrade, a check judges."""
    assert upgrade_path(V(1, 36, 3), target) == (target,)


def test_each_minor_is_a_hop() -> None:
    """Kubernetes supports one minor version at a time: v1.33 reaches v1.37 in four hops, none of them left out."""
    found = upgrade_path(V(1, 33, 4), V(1, 37, 1))
    assert [(version.minor, version == newest_patches().get((1, version.minor))) for version in found[:-1]] == [
        (34, True),
        (35, True),
        (36, True),
    ]
    assert found[-1] == V(1, 37, 1)


def test_named_versions_are_gone_through() -> None:
    """A site goes through the releases that it has images of; those that aren't on the way don't matter."""
    through = (V(1, 35, 2), V(1, 34, 1), V(1, 31, 0), V(1, 37, 0))
    assert upgrade_path(V(1, 33, 4), V(1, 36, 0), through) == (V(1, 34, 1), V(1, 35, 2), V(1, 36, 0))


def test_a_minor_without_a_known_release_is_named() -> None:
    """The error names the minor that is missing, and the key that helps."""
    with pytest.raises(UsageError) as refused:
        upgrade_path(V(1, 37, 1), V(1, 99, 0))
    assert "v1.38" in refused.value.message
    assert "through: [v1.38.X]" in (refused.value.remedy or "")
    assert upgrade_path(V(1, 36, 3), V(1, 99, 0), most=1) == (newest_patches()[1, 37],), "who goes less far needs none"


def test_another_major_version_has_no_way() -> None:
    """Nobody knows how Kubernetes 2 is reached."""
    with pytest.raises(UsageError, match="across major versions"):
        upgrade_path(V(1, 37, 1), V(2, 0, 0))


def test_the_table_takes_releases_only() -> None:
    """No pre-release is gone through, and patches are compared as numbers."""
    versions = ["v1.34.9", "v1.34.10", "v1.35.0-rc.1", "v1.31.2", "v1.35.0"]
    assert newest_of(versions, V(1, 32, 0)) == (V(1, 34, 10), V(1, 35, 0))
