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
kubernetesVersion: v1.36.3
backup: {folder: saved}
"""


def write(path: Path, text: str = "a: 1\n") -> None:
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
        "clusters/a/.hidden/x.yml",
        "clusters/a/saved/roles.yml",
        "clusters/a/ssh/known_hosts",
    ],
)
def test_change_that_a_run_would_read(cluster: Path, tmp_path: Path, changed: str) -> None:
    """Linked folders and files that are named elsewhere count as what is in the folder."""
    before = folder_digest(cluster)
    write(tmp_path / changed, "a: 2\n")
    assert folder_digest(cluster) != before


@pytest.mark.parametrize(
    "changed",
    [
        "clusters/kubeconfigs/a",
        "clusters/a/saved/20260101T000000-v1.36.3.tar.age",
        "clusters/a/saved/20260101T000000-v1.36.3.tar.age.part",
        "clusters/a/saved/cluster-uid",
        "clusters/a/runs/x",
        "clusters/b/x",
    ],
)
def test_change_that_is_no_input(cluster: Path, tmp_path: Path, changed: str) -> None:
    """Credentials, backups, runs and other clusters' folders may change at any time."""
    before = folder_digest(cluster)
    write(tmp_path / changed, "a: 2\n")
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


@pytest.mark.parametrize(
    ("yaml", "changed"),
    [
        ("backup: {folder: .}", "hosts.yml"),
        ("backup: {folder: .}", "upgrader.yaml"),
        ("cluster: {inventory: .hosts.yml}", ".hosts.yml"),
        ("pipeline: [{release: web, chart: .web, values: .web.yaml}]", ".web.yaml"),
    ],
)
def test_names_that_leave_nothing_out(tmp_path: Path, yaml: str, changed: str) -> None:
    """Whatever a folder's upgrader.yaml calls its parts, a change of each that a run reads is a change."""
    for name in (".web/Chart.yaml", ".web.yaml", "hosts.yml", ".hosts.yml", "roles/db/tasks/main.yml"):
        write(tmp_path / name)
    write(tmp_path / "upgrader.yaml", f"kubernetesVersion: v1.36.3\n{yaml}\n")
    before = folder_digest(tmp_path)
    with (tmp_path / changed).open("a") as file:
        file.write("\n# more\n")
    assert folder_digest(tmp_path) != before


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("hosts.yml", "hosts.yml is the inventory, .* also a kubeconfig"),
        ("upgrader.yaml", "an approval doesn.t cover the kubeconfig"),
        ("roles/db/tasks/main.yml", "is in a folder that Ansible reads automatically"),
        ("web/values.yaml", "is the chart of web, .* also a kubeconfig"),
        ("runs/hosts.yml", None),
    ],
)
def test_credentials_that_are_also_an_input(tmp_path: Path, place: str, message: str | None) -> None:
    """A kubeconfig, which may change at any time, is no file that a run reads as something else."""
    yaml = f"kubernetesVersion: v1.36.3\ncluster: {{kubeconfig: {place}}}\npipeline: [{{release: web, chart: web}}]\n"
    for name in ("web/Chart.yaml", "hosts.yml", place):
        write(tmp_path / name)
    write(tmp_path / "upgrader.yaml", yaml)
    if message is None:
        assert folder_digest(tmp_path)
        return
    with pytest.raises(UsageError, match=message):
        folder_digest(tmp_path)


def test_another_name_of_a_file_that_is_left_out(tmp_path: Path) -> None:
    """A hard link to the kubeconfig counts: it may be a role. Where runs are written is no link to what is read."""
    write(tmp_path / "upgrader.yaml", "kubernetesVersion: v1.36.3\n")
    write(tmp_path / "kubeconfig")
    write(tmp_path / "roles/db/tasks/main.yml")
    (tmp_path / "roles/db/tasks/more.yml").hardlink_to(tmp_path / "kubeconfig")
    before = folder_digest(tmp_path)
    write(tmp_path / "kubeconfig", "a: 2\n")
    assert folder_digest(tmp_path) != before
    (tmp_path / "runs").symlink_to("roles")
    with pytest.raises(UsageError, match="runs is a link"):
        folder_digest(tmp_path)


KUBECONFIG = """\
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://k:6443", certificate-authority: ca.pem}}]
users:
- {name: u, user: {tokenFile: token}}
- {name: unused, user: {tokenFile: other}}
"""


@pytest.mark.parametrize(
    ("file", "content", "counts"),
    [
        ("token", "abc.DEF-1", False),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n", False),
        ("other", "abc.DEF-1", True),
        ("token", '[{"hosts":"all"}]', True),
        ("ca.pem", "-----BEGIN A-----\nrm -r x; y\n-----END A-----\n", True),
    ],
)
def test_files_that_a_kubeconfig_names(tmp_path: Path, file: str, content: str, counts: bool) -> None:
    """A file is left out if the context uses it and it is a credential: by any other, a playbook would be left out."""
    write(tmp_path / "upgrader.yaml", "kubernetesVersion: v1.36.3\n")
    write(tmp_path / "kubeconfig", KUBECONFIG)
    for name in ("token", "ca.pem", "other"):
        write(tmp_path / name, "-----BEGIN A-----\nQQ==\n-----END A-----\n" if name == "ca.pem" else "abc")
    before = folder_digest(tmp_path)
    write(tmp_path / file, content)
    assert (folder_digest(tmp_path) != before) == counts


def test_links_to_what_is_left_out(tmp_path: Path) -> None:
    """A link to the kubeconfig, or one with the name of git's folder, counts with its content; one to `runs`, which a
    run writes itself, is refused: each may be read as a role.
    """
    write(tmp_path / "upgrader.yaml", "kubernetesVersion: v1.36.3\n")
    for name in ("kubeconfig", "runs/db/tasks/main.yml"):
        write(tmp_path / name)
    write(tmp_path.parent / "elsewhere/x.yml")
    (tmp_path / "more.yml").symlink_to("kubeconfig")
    (tmp_path / "web").mkdir()
    (tmp_path / "web/.git").symlink_to(tmp_path.parent / "elsewhere")
    for changed in ("kubeconfig", "../elsewhere/x.yml"):
        before = folder_digest(tmp_path)
        write(tmp_path / changed, "a: 2\n")
        assert folder_digest(tmp_path) != before
    (tmp_path / "roles").symlink_to("runs")
    with pytest.raises(UsageError, match=r"roles is a link to .*/runs, which an approval can't cover"):
        folder_digest(tmp_path)


def test_backups_among_roles(tmp_path: Path) -> None:
    """Where Ansible looks for roles, nothing may change by itself."""
    write(tmp_path / "upgrader.yaml", "kubernetesVersion: v1.36.3\nbackup: {folder: roles}\n")
    with pytest.raises(UsageError, match="is in a folder that Ansible reads automatically"):
        folder_digest(tmp_path)


def test_folder_whose_upgrader_yaml_is_not_valid(cluster: Path) -> None:
    """What a run would read isn't known: no digest covers it."""
    (cluster / "upgrader.yaml").write_text("cluster: [\n")
    with pytest.raises(UsageError, match="is not valid YAML"):
        folder_digest(cluster)


def test_pins() -> None:
    """They are the same twice, and a difference is named."""
    pins = own_pins()
    assert pins == own_pins() and pins_differ(pins, pins) == "" and pins_differ(None, pins) == ""
    one = Pins("1", "c", "p")
    assert pins_differ(one, Pins("2", "c", "p")) == "the campaign began with upgrader 1; this is 2"
    assert pins_differ(one, Pins("1", "d", "p")) == "the charts of upgrader 1 have changed since the campaign began"
    assert "program files" in pins_differ(one, Pins("1", "c", "q"))
    assert pins_differ(one, Pins("2", "c", "p"), "it was built") == "it was built with upgrader 1; this is 2"
