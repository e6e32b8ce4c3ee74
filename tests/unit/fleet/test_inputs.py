"""What of a cluster's folder is approved: all that a run reads, wherever it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from upgrader.errors import UsageError
from upgrader.fleet.events import Pins
from upgrader.fleet.inputs import folder_digest, own_pins, pins_differ

YAML = """\
cluster: {inventory: ../inventory/hosts.yml, kubeconfig: ../kubeconfigs/a}
pipeline:
- {release: web, chart: ../../charts/web, values: ../../values/web.yaml}
- {playbook: ../../playbooks/db.yml}
backup: {folder: saved}
"""


def write(path: Path, text: str = "1") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster's folder that shares files with others, by links and by what its upgrader.yaml names."""
    folder = tmp_path / "clusters/a"
    write(folder / "upgrader.yaml", YAML)
    for name in (
        "clusters/inventory/hosts.yml",
        "clusters/inventory/group_vars/all.yml",
        "clusters/kubeconfigs/a",
        "charts/web/Chart.yaml",
        "values/web.yaml",
        "playbooks/db.yml",
        "playbooks/roles/db/tasks/main.yml",
        "linked/more/x.yaml",
    ):
        write(tmp_path / name)
    (folder / "values").symlink_to(tmp_path / "linked")
    return folder


@pytest.mark.parametrize(
    "changed",
    [
        "linked/more/x.yaml",
        "linked/new.yaml",
        "clusters/inventory/hosts.yml",
        "clusters/inventory/group_vars/all.yml",
        "charts/web/Chart.yaml",
        "charts/web/templates/new.yaml",
        "values/web.yaml",
        "playbooks/db.yml",
        "playbooks/roles/db/tasks/main.yml",
        "clusters/a/new.yaml",
    ],
)
def test_change_that_a_run_would_read(cluster: Path, tmp_path: Path, changed: str) -> None:
    """Linked folders and files that are named elsewhere count as what is in the folder."""
    before = folder_digest(cluster)
    write(tmp_path / changed, "2")
    assert folder_digest(cluster) != before


@pytest.mark.parametrize(
    "changed",
    ["clusters/kubeconfigs/a", "clusters/a/saved/x", "clusters/a/runs/x", "clusters/a/.cache/x", "clusters/b/x"],
)
def test_change_that_is_no_input(cluster: Path, tmp_path: Path, changed: str) -> None:
    """Credentials, backups, runs and other clusters' folders may change at any time."""
    before = folder_digest(cluster)
    write(tmp_path / changed, "2")
    assert folder_digest(cluster) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda link, other: (link.unlink(), link.symlink_to(other)),
        lambda link, other: (link.unlink(), link.symlink_to("nowhere")),
        lambda link, other: link.unlink(),
    ],
)
def test_link_that_leads_elsewhere(cluster: Path, tmp_path: Path, change: Callable[[Path, Path], object]) -> None:
    """Where a link leads to counts, also where nothing is."""
    before = folder_digest(cluster)
    change(cluster / "values", tmp_path / "values")
    assert folder_digest(cluster) != before


def test_links_in_a_circle_and_files_that_are_none(cluster: Path) -> None:
    """A link to a folder above ends; a pipe is named."""
    (cluster / "up").symlink_to(cluster)
    assert folder_digest(cluster)
    os.mkfifo(cluster / "pipe")
    with pytest.raises(UsageError, match="pipe is a pipe"):
        folder_digest(cluster)


def test_pins() -> None:
    """They are the same twice, and a difference is named."""
    pins = own_pins()
    assert pins == own_pins() and pins_differ(pins, pins) == "" and pins_differ(None, pins) == ""
    one = Pins("1", "c", "p")
    assert pins_differ(one, Pins("2", "c", "p")) == "the campaign was begun with upgrader 1; this is 2"
    assert pins_differ(one, Pins("1", "d", "p")) == "the charts of upgrader 1 have changed since the campaign began"
    assert "program files" in pins_differ(one, Pins("1", "c", "q"))
