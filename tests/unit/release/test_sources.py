"""What a release is made from, and what must not get into it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from release.__main__ import main
from release.charts import pack_charts
from release.sources import Sources
from upgrader import __version__
from upgrader.adapters.helm import find_helm


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


def rendered(chart: Path) -> str:
    """What Helm renders of a packed chart without values, or says of it."""
    done = subprocess.run([find_helm(), "template", chart], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_charts_of_a_release_name_its_own_image(tmp_path: Path) -> None:
    """With a registry, the packed chart renders at once, by the digest of the image that was built with it; without
    one, it asks for a repository. The checkout is as it was."""
    sources = Sources.of_this_checkout()
    before = (sources.root / "charts/pod-checkpointer/values.yaml").read_text()
    digest = f"sha256:{'5' * 64}"
    digests = {"pod-checkpointer": digest, "guard": digest}
    named = sources.naming("registry.example.com/upgrader", digests, tmp_path / "copy")
    for folder, each in (("named", named), ("plain", sources)):
        pack_charts(each, tmp_path / folder)
    for name in digests:
        chart = f"{name}-{__version__}.tgz"
        assert f"image: registry.example.com/upgrader/{name}@{digest}\n" in rendered(tmp_path / "named" / chart)
        assert "image.repository is not set" in rendered(tmp_path / "plain" / chart)
    assert (sources.root / "charts/pod-checkpointer/values.yaml").read_text() == before
    assert (named.commit, named.registry) == (sources.commit, "registry.example.com/upgrader")


def test_copy_has_what_git_has(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No other file gets into a release's copy, and none that git names but that was removed stops it."""
    (checkout / "charts/pod-checkpointer").mkdir(parents=True)
    (checkout / "charts/pod-checkpointer/values.yaml").write_text('image:\n  repository: ""\n')
    (checkout / "gone").touch()
    subprocess.run(["git", "add", "."], cwd=checkout, check=True)
    (checkout / "gone").unlink()
    (checkout / "stranger").touch()
    copy = tmp_path_factory.mktemp("named") / "copy"
    Sources.of_this_checkout().naming("registry.example.com", {"pod-checkpointer": "sha256:1"}, copy)
    found = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert found == {".gitignore", "pyproject.toml", "charts/pod-checkpointer/values.yaml"}
