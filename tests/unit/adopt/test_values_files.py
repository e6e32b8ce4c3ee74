"""The files that adoption writes into a cluster folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from upgrader.adopt.values_files import changed_values, missing_gitignore, write_values


def test_values_are_for_their_owner_only(tmp_path: Path) -> None:
    """A flag or an environment variable of kubeadm's may hold a secret; so may what was there before."""
    for replicas in (1, 3):
        changed = changed_values(tmp_path, {"kube-apiserver": {"replicas": replicas}})
        for file, text in changed.items():
            write_values(file, text)
    file = tmp_path / "values" / "kube-apiserver.yaml"
    before = file.with_suffix(".yaml.before-adopt")
    assert "replicas: 3" in file.read_text() and "replicas: 1" in before.read_text()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (file, before)} == {0o600}
    assert changed_values(tmp_path, {"kube-apiserver": {"replicas": 3}}) == {}


def test_credentials_and_runs_are_not_committed(tmp_path: Path) -> None:
    """A folder without .gitignore gets one; an operator's own is left alone."""
    for file, text in missing_gitignore(tmp_path).items():
        write_values(file, text)
    lines = (tmp_path / ".gitignore").read_text().splitlines()
    assert {"/kubeconfig", "/runs/"} <= set(lines)
    assert missing_gitignore(tmp_path) == {}


@pytest.mark.parametrize("text", ["y", "N", "1e3", "0o644", "08", "1:30", "2026-01-01", "on", "1.10"])
def test_texts_are_texts_for_helm_as_well(tmp_path: Path, text: str) -> None:
    """Written without quotes, `y` would be true for Helm, and `1e3` a number; others would be so for PyYAML."""
    (written,) = changed_values(tmp_path, {"kube-apiserver": {"podLabels": {"own": text}}}).values()
    assert f"own: '{text}'" in written
    assert yaml.safe_load(written) == {"podLabels": {"own": text}}
