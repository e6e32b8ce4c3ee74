"""A run of a campaign works from a private copy of what was approved, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.copied_folder import COPIES
from upgrader.config.load import load_settings
from upgrader.errors import UsageError
from upgrader.fleet.inputs import approved_copy, folder_digest

YAML = """\
cluster: {inventory: ../inventory/hosts.yml, kubeconfig: ../kubeconfigs/a}
pipeline:
- {release: web, chart: ../../charts/web, values: ../../values/web.yaml}
- {playbook: play.yml}
kubernetesVersion: v1.36.3
images: {bundle: ../../bundle.tar}
backup: {folder: saved}
"""
INPUTS = (
    "clusters/inventory/hosts.yml",
    "clusters/inventory/group_vars/all.yml",
    "elsewhere/charts/web/Chart.yaml",
    "elsewhere/charts/web/templates/a.yaml",
    "values/web.yaml",
    "linked/more/x.yaml",
    "linked/one.yaml",
    "clusters/a/play.yml",
    "clusters/a/roles/db/tasks/main.yml",
    "clusters/a/saved/roles.yml",
)
OTHERS = (
    "clusters/kubeconfigs/a",
    "clusters/a/runs/evil.yml",
    "clusters/a/.git/evil.yml",
    "clusters/a/saved/20260101T000000-v1.36.3.tar.age",
    "clusters/evil.yml",
    "evil.yml",
    "bundle.tar",
)


def write(path: Path, text: str = "a: 1\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster's folder with files elsewhere: named by a path through a link, and linked to in each way."""
    for name in (*INPUTS, *OTHERS):
        write(tmp_path / name)
    folder = tmp_path / "clusters/a"
    (folder / "upgrader.yaml").write_text(YAML)
    (folder / "play.yml").chmod(0o755)
    (tmp_path / "charts").symlink_to(tmp_path / "elsewhere/charts")
    (folder / "absolute").symlink_to(tmp_path / "linked")
    (tmp_path / "chain").symlink_to("linked")
    (folder / "relative").symlink_to("../../chain")
    (folder / "one.yaml").symlink_to("absolute/one.yaml")
    (folder / "own").symlink_to(folder / "play.yml")
    (folder / "circle").symlink_to("circle")
    (folder / "nowhere").symlink_to("../nothing")
    (folder / "up").symlink_to(folder)
    return folder


def test_copy_is_what_was_approved(cluster: Path, tmp_path: Path) -> None:
    """It has the same digest, links included, also after the folder has changed; and no file that is in no digest."""
    digest = folder_digest(cluster)
    copies = approved_copy(cluster, tmp_path / "runs/c/inputs", digest)
    assert copies is not None
    copy = Path(f"{copies}{cluster}")
    assert {name for name in INPUTS if not Path(f"{copies}{tmp_path / name}").is_file()} == set()
    assert {name for name in OTHERS if Path(f"{copies}{tmp_path / name}").exists()} == set()
    assert copies.stat().st_mode & 0o777 == 0o700 and (copy / "play.yml").stat().st_mode & 0o777 == 0o700
    assert (copy / "hosts.yml").exists() is False and (copy / "relative/more/x.yaml").read_text() == "a: 1\n"
    for link in (path for path in copies.rglob("*") if path.is_symlink() and path.name not in ("circle", "nowhere")):
        assert link.resolve(strict=True).is_relative_to(copies.resolve()), "no link leads out of it"
    for name in INPUTS:
        write(tmp_path / name, "a: 2\n")
    assert folder_digest(cluster) != digest and folder_digest(cluster, copies) == digest


def test_copy_of_another_state(cluster: Path, tmp_path: Path) -> None:
    """If the folder isn't as it was approved, or can't be read, nothing of it stays."""
    digest, kept_in = folder_digest(cluster), tmp_path / "runs/c/inputs"
    write(cluster / "new.yml")
    assert approved_copy(cluster, kept_in, digest) is None
    (cluster / "upgrader.yaml").write_text("- a\n")
    with pytest.raises(UsageError):
        approved_copy(cluster, kept_in, digest)
    assert list(kept_in.iterdir()) == []


def test_settings_of_a_copy(cluster: Path, tmp_path: Path) -> None:
    """What is approved is read in the copy; what a run writes, credentials, and a bundle elsewhere are not."""
    copies = approved_copy(cluster, tmp_path / "runs/c/inputs", folder_digest(cluster))
    assert copies is not None
    found = load_settings(cluster, {COPIES: str(copies)})
    named = (found.inventory, *(getattr(each, "chart", None) or each.playbook for each in found.pipeline))  # type: ignore[union-attr]
    assert all(path.exists() and path.is_relative_to(copies) for path in named)
    assert (found.folder, found.backup.folder) == (cluster, cluster / "saved")
    assert found.kubeconfig == cluster / "../kubeconfigs/a" and found.images.bundle == cluster / "../../bundle.tar"
    assert load_settings(cluster, {}).inputs == cluster


def test_input_that_is_named_by_an_absolute_path(cluster: Path, tmp_path: Path) -> None:
    """It can't be read in the copy, and is named with what to do instead."""
    (cluster / "upgrader.yaml").write_text(YAML.replace("{playbook: play", f"{{playbook: {tmp_path}/clusters/a/play"))
    with pytest.raises(UsageError, match=r"play\.yml by an absolute path") as caught:
        approved_copy(cluster, tmp_path / "copies", folder_digest(cluster))
    assert "relative to the folder" in caught.value.remedy
