"""A run of a campaign works from a private copy of what was approved, and of nothing else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import pytest

from upgrader.config.copied_folder import COPIES
from upgrader.config.load import load_settings
from upgrader.config.plain_file import open_plain
from upgrader.engine.execution import input_files
from upgrader.errors import UsageError
from upgrader.fleet import approved_copies as copies_module
from upgrader.fleet.inputs import copy_approved, folder_digest
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import PlaybookSettings, ReleaseSettings
from upgrader.steps.playbook.plan import playbook_inputs
from upgrader.steps.release.plan import PlannedRelease

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
    copies = copy_approved(cluster, tmp_path / "runs/c/inputs", digest)
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


def test_each_file_is_read_once_to_be_copied(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle of images has gigabytes, and what counts is the digest of the copy."""
    digest, opened = folder_digest(cluster), Counter[str]()

    def counted(path: Path) -> BinaryIO:
        opened[os.path.realpath(path)] += 1
        return open_plain(path)

    monkeypatch.setattr(copies_module, "open_plain", counted)
    monkeypatch.setattr(input_files, "open_plain", counted)
    assert copy_approved(cluster, tmp_path / "runs/c/inputs", digest) is not None
    assert {str(tmp_path / name): 1 for name in INPUTS}.items() <= opened.items()


def test_steps_of_a_copy_have_the_inputs_of_the_folder(cluster: Path, tmp_path: Path) -> None:
    """The owner of the folder resumes an interrupted run there, with absolute links in a chart and beside a playbook:
    nothing has changed since the run began in its copy.
    """
    for place in ("charts/web/more.yaml", "clusters/a/roles/db/tasks/more.yml"):
        (tmp_path / place).symlink_to(tmp_path / "linked/one.yaml")
    copies = copy_approved(cluster, tmp_path / "runs/c/inputs", folder_digest(cluster))
    assert copies is not None

    def of_steps(environ: dict[str, str]) -> list[Mapping[str, str]]:
        release, playbook = load_settings(cluster, environ).pipeline
        assert isinstance(release, ReleaseSettings) and isinstance(playbook, PlaybookSettings) and release.chart
        spec = ReleaseSpec("web", "default", release.chart, {})
        return [PlannedRelease(spec, "install", "", "", "", ()).inputs(), playbook_inputs(playbook.playbook)]

    before = of_steps({})
    assert of_steps({COPIES: str(copies)}) == before
    (tmp_path / "charts/web/more.yaml").unlink()
    (tmp_path / "charts/web/more.yaml").symlink_to(tmp_path / "linked/more/x.yaml")
    assert of_steps({}) != before, "a link to another file with the same content is another input"


def test_copy_of_another_state(cluster: Path, tmp_path: Path) -> None:
    """If the folder isn't as it was approved, or can't be read, nothing of it stays."""
    digest, kept_in = folder_digest(cluster), tmp_path / "runs/c/inputs"
    write(cluster / "new.yml")
    assert copy_approved(cluster, kept_in, digest) is None
    (cluster / "upgrader.yaml").write_text("- a\n")
    with pytest.raises(UsageError):
        copy_approved(cluster, kept_in, digest)
    assert not kept_in.exists()


def test_settings_of_a_copy(cluster: Path, tmp_path: Path) -> None:
    """What is approved is read in the copy; what a run writes, credentials, and a bundle elsewhere are not."""
    copies = copy_approved(cluster, tmp_path / "runs/c/inputs", folder_digest(cluster))
    assert copies is not None
    found = load_settings(cluster, {COPIES: str(copies)})
    named = (found.inventory, *(getattr(each, "chart", None) or each.playbook for each in found.pipeline))  # type: ignore[union-attr]
    assert all(path.exists() and path.is_relative_to(copies) for path in named)
    assert (found.folder, found.backup.folder) == (cluster, cluster / "saved")
    assert found.kubeconfig == cluster / "../kubeconfigs/a" and found.images.bundle == cluster / "../../bundle.tar"
    assert load_settings(cluster, {}).inputs == cluster


def test_kubeconfig_that_is_a_link_is_not_copied(cluster: Path, tmp_path: Path) -> None:
    """The link is an input, and what it leads to is none: the copy has the same digest, and no credential."""
    (cluster / "upgrader.yaml").write_text(YAML.replace("../kubeconfigs/a", "kubeconfig"))
    place, elsewhere = cluster / "kubeconfig", tmp_path / "elsewhere/secret"
    (tmp_path / "clusters/kubeconfigs/a").rename(place)
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    copies = copy_approved(cluster, tmp_path / "inputs", folder_digest(cluster))
    assert copies is not None
    assert not Path(f"{copies}{elsewhere}").exists()


def test_another_name_of_a_kubeconfig_is_an_input(cluster: Path, tmp_path: Path) -> None:
    """A file that a playbook may read by that name; its copy counts once, as it does in the folder."""
    (cluster / "more.yml").symlink_to("../kubeconfigs/a")
    digest = folder_digest(cluster)
    copies = copy_approved(cluster, tmp_path / "inputs", digest)
    assert copies is not None and Path(f"{copies}{cluster}/more.yml").read_text() == "a: 1\n"


def test_copy_for_a_resume_is_at_the_same_path(cluster: Path, tmp_path: Path) -> None:
    """A run that is resumed compares its inputs with those that it began with, and their paths may be among them."""
    digest = folder_digest(cluster)
    first = copy_approved(cluster, tmp_path / "inputs", digest)
    write(tmp_path / "inputs/left")
    assert copy_approved(cluster, tmp_path / "inputs", digest) == first and not (tmp_path / "inputs/left").exists()


@pytest.mark.parametrize("link", [True, False], ids=["a link", "a name"])
def test_path_that_climbs_out_of_the_copies_is_refused(cluster: Path, tmp_path: Path, link: bool) -> None:
    """Above the root there is nothing to climb in the folder, and much in its copy: files that may change later."""
    path = f"{'../' * 40}{tmp_path}/linked/one.yaml"
    if link:
        (cluster / "tasks.yml").symlink_to(path)
    else:
        (cluster / "upgrader.yaml").write_text(YAML.replace("{playbook: play.yml}", f"{{playbook: {path}}}"))
    with pytest.raises(UsageError, match=r"more `\.\.` than there are folders"):
        copy_approved(cluster, tmp_path / "inputs", folder_digest(cluster))


def test_input_that_is_named_by_an_absolute_path(cluster: Path, tmp_path: Path) -> None:
    """It can't be read in the copy, and is named with what to do instead."""
    (cluster / "upgrader.yaml").write_text(YAML.replace("{playbook: play", f"{{playbook: {tmp_path}/clusters/a/play"))
    with pytest.raises(UsageError, match=r"upgrader\.yaml:4: .*play\.yml is an absolute path") as caught:
        copy_approved(cluster, tmp_path / "copies", folder_digest(cluster))
    assert "relative to the folder" in caught.value.remedy
