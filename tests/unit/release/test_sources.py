"""What a release is made from, and what must not get into it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from release.__main__ import main
from release.sources import Sources


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository, which is taken for this one."""
    (tmp_path / ".gitignore").write_text("dist/\n")
    (tmp_path / "pyproject.toml").touch()
    for words in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(Sources, "of_this_checkout", lambda: Sources(tmp_path, "", changed=True))
    return tmp_path


def test_cluster_folder_in_the_checkout_is_not_packed(checkout: Path) -> None:
    """Its own .gitignore hides the kubeconfig from git, and not from those who pack. Nothing is built or removed."""
    (checkout / "dist").mkdir()
    (checkout / "dist" / "earlier.whl").touch()
    (checkout / "cluster").mkdir()
    (checkout / "cluster" / ".gitignore").write_text("*\n")
    (checkout / "cluster" / "kubeconfig").write_text("{}")
    with pytest.raises(SystemExit, match=r"not in git.*cluster/\.gitignore, cluster/kubeconfig"):
        main(checkout / "dist")
    assert (checkout / "dist" / "earlier.whl").exists()


def test_what_git_has_or_the_root_ignores_is_no_stranger(checkout: Path) -> None:
    """A file that is added is meant."""
    (checkout / "dist").mkdir()
    (checkout / "dist" / "earlier.whl").touch()
    assert Sources.of_this_checkout().strangers() == []
