"""Entries of kubeconfigs are found in one way, whatever an odd file has in their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from upgrader.config.copied_kubeconfig import read_used
from upgrader.config.kubeconfig import named_files, read_kubeconfig
from upgrader.config.load import load_settings
from upgrader.errors import ConfigError

ODD: dict[str, tuple[object, str]] = {
    "number": (1, "there is no user named 'u'"),
    "text": ("u", "there is no user named 'u'"),
    "entries that are none": ([1, None, "u"], "there is no user named 'u'"),
    "content that is none": ([{"name": "u", "user": [1]}], "the user 'u' is not a mapping"),
}


@pytest.mark.parametrize("odd", list(ODD))
@pytest.mark.parametrize(
    "reader",
    [
        lambda folder: read_kubeconfig(folder / "kubeconfig"),
        lambda folder: read_used(load_settings(folder, {}), {}, ()),
    ],
    ids=["run", "campaign"],
)
def test_odd_entries(tmp_path: Path, odd: str, reader: Callable[[Path], object]) -> None:
    """A run and a campaign say the same of them, with file and line; no files of credentials are known then."""
    users, message = ODD[odd]
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443"}}],
        "users": users,
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=message) as caught:
        reader(tmp_path)
    assert "kubeconfig:1" in caught.value.message
    assert named_files(tmp_path / "kubeconfig") == ()
