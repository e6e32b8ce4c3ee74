"""`upgrader fleet init`: a fleet folder that is valid as it is written, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import server_of, write_kubeconfig
from upgrader.cli.main import cli
from upgrader.errors import ApiUnavailable, Blocked, UsageError
from upgrader.fleet import new_folder
from upgrader.fleet.clusters import Answer
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.new_folder import ProposedFleet, propose_fleet
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion.release("v1.37.1")


def clusters(folder: Path, *names: str) -> None:
    """Cluster folders, each with a kubeconfig of its own."""
    for name in names:
        made = folder / "clusters" / name
        made.mkdir(parents=True)
        (made / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
        write_kubeconfig(made)


def answer(kubeconfig: Path) -> Answer:
    """A cluster whose UID is its server's name."""
    return Answer(f"uid-{server_of(kubeconfig)}", TARGET)


def proposed(folder: Path, *commands: str) -> ProposedFleet:
    return propose_fleet(folder, TARGET, commands, lambda _: None, answer)


@pytest.mark.parametrize("names", [("eu-1",), ("eu-1", "eu-2", "eu-10", "us")])
def test_what_is_written_is_a_fleet(tmp_path: Path, names: tuple[str, ...]) -> None:
    """The first cluster is the canary, the others follow an approval; each has the UID that it has told."""
    clusters(tmp_path, *names)
    proposed(tmp_path, "aws").write()
    fleet = read_fleet(tmp_path, FakeClock().now())
    assert fleet.target == TARGET and fleet.commands == {"aws"}
    assert [(each.name, each.uid) for each in fleet.clusters] == [(name, f"uid-{name}") for name in names]
    members = {stage: [each.name for each in of] for stage, of in fleet.members.items()}
    assert members == {"canary": ["eu-1"], **({"production": list(names[1:])} if names[1:] else {})}
    assert [stage.approval for stage in fleet.stages] == [False, True][: len(fleet.stages)]


def test_second_file_that_cannot_be_written(tmp_path: Path) -> None:
    """Neither file is left: `fleet init` would refuse to write over the first one."""
    clusters(tmp_path, "eu-1")
    made = proposed(tmp_path)
    (tmp_path / "fleet.yaml").mkdir()
    with pytest.raises(OSError, match=r"fleet\.yaml"):
        made.write()
    assert not (tmp_path / "fleet-inventory.yaml").exists()


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    """They have what people wrote into them."""
    clusters(tmp_path, "eu-1")
    (tmp_path / "fleet.yaml").write_text("mine")
    with pytest.raises(UsageError, match="exists already; nothing was written"):
        proposed(tmp_path)
    assert (tmp_path / "fleet.yaml").read_text() == "mine" and not (tmp_path / "fleet-inventory.yaml").exists()


def test_folder_without_clusters(tmp_path: Path) -> None:
    """It says how a cluster folder is written."""
    with pytest.raises(UsageError, match="has no cluster folder") as caught:
        proposed(tmp_path)
    assert "clusters/NAME init" in caught.value.remedy


@pytest.mark.parametrize("name", ["EU_1", "eu 1", ".old", "x" * 64])
def test_folder_whose_name_no_cluster_can_have(tmp_path: Path, name: str) -> None:
    """It is refused before anything is asked or written: no command would read an inventory with that name."""
    clusters(tmp_path, "eu-1", name)
    with pytest.raises(UsageError, match="no cluster of a fleet can have the name"):
        proposed(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clusters"]


def test_cluster_that_does_not_answer(tmp_path: Path) -> None:
    """A guessed UID would be worse than none: nothing is written, and the folder is named."""
    clusters(tmp_path, "eu-1", "eu-2")

    def ask(kubeconfig: Path) -> Answer:
        if server_of(kubeconfig) == "eu-2":
            raise ApiUnavailable("cannot connect to eu-2")
        return answer(kubeconfig)

    with pytest.raises(Blocked, match="eu-2: cannot connect to eu-2; nothing was written"):
        propose_fleet(tmp_path, TARGET, (), lambda _: None, ask)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clusters"]


def test_command_that_is_not_allowed_is_not_run(tmp_path: Path) -> None:
    """A kubeconfig may come from another team: its command is run only if it was named."""
    clusters(tmp_path, "eu-1")
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never"}
    write_kubeconfig(tmp_path / "clusters/eu-1", token="", exec=command)
    with pytest.raises(Blocked, match="eu-1") as caught:
        proposed(tmp_path)
    assert "--exec COMMAND" in caught.value.remedy


def test_two_folders_of_one_cluster(tmp_path: Path) -> None:
    """A copied folder would be upgraded twice."""
    clusters(tmp_path, "eu-1", "eu-2")
    write_kubeconfig(tmp_path / "clusters/eu-2", server="eu-1")
    with pytest.raises(Blocked, match="eu-1 and eu-2 are folders of the same cluster"):
        proposed(tmp_path)


def test_command_writes_and_says_what_is_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was confirmed."""
    clusters(tmp_path, "eu-1")
    monkeypatch.setattr(new_folder, "_uid", lambda folder, *_: f"uid-{folder.name}")
    words = ["-C", str(tmp_path), "fleet", "init", "--to", "v1.37.1"]
    assert CliRunner().invoke(cli, words, input="n\n").exit_code != 0 and not (tmp_path / "fleet.yaml").exists()
    ended = CliRunner().invoke(cli, [*words, "--yes"])
    assert ended.exit_code == 0 and "edit labels and stages, then upgrader" in ended.stderr
    assert (tmp_path / "fleet.yaml").exists() and (tmp_path / "fleet-inventory.yaml").exists()
