"""Versions as people and machines write them."""

from __future__ import annotations

import pytest

from upgrader.cli.command_line import VERSION
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion


@pytest.mark.parametrize("text", ["v1.37.1", "1.37.1", " v1.37.1 "])
def test_release_that_somebody_wants(text: str) -> None:
    """With and without the letter."""
    assert KubernetesVersion.release(text) == VERSION.convert(text, None, None) == KubernetesVersion(1, 37, 1)


@pytest.mark.parametrize("text", ["v1.38.0-rc.1", "v1.37.1+vendor.2", "v1.37.1_vendor.2", "v1.037.1"])
def test_what_would_become_another_version(text: str) -> None:
    """It is refused as a target, with what is supported; a server that reports it is still understood."""
    with pytest.raises(UsageError, match="not a plain release") as caught:
        VERSION.convert(text, None, None)
    assert str(KubernetesVersion.parse(text)) in caught.value.remedy


@pytest.mark.parametrize("text", ["", "1.37", "v1.37.x", "latest"])
def test_what_is_no_version(text: str) -> None:
    """It is never taken for one."""
    with pytest.raises(UsageError, match="is not a Kubernetes version"):
        KubernetesVersion.release(text)
