"""Labs are written down before they are made."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from upgrader.errors import LabError
from upgrader.lab import existing_labs
from upgrader.lab.existing_labs import claim, exclusive, find, is_complete, labs, labs_root, remove_root, set_complete
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.lifecycle import Lab
from upgrader.lab.spec import LabSpec


@pytest.fixture(autouse=True)
def _own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing_labs, "_ROOT", tmp_path / "labs")
    monkeypatch.setattr(existing_labs, "_networks_in_use", list)


def test_a_claimed_lab_is_found_as_it_was_asked_for(tmp_path: Path) -> None:
    """Spec, place and folder survive the round trip; other names find nothing."""
    claimed = claim(LabSpec("one", 3, 2, "v1.37.1"), tmp_path / "folder")
    assert find("one") == claimed
    assert find("two") is None


def test_labs_get_places_of_their_own(tmp_path: Path) -> None:
    """Two labs never share an index, and one that is gone makes room."""
    first = claim(LabSpec("one"), tmp_path)
    second = claim(LabSpec("two"), tmp_path)
    assert (first.index, second.index) == (0, 1)
    (existing_labs.lab_dir("one") / "lab.json").unlink()
    assert claim(LabSpec("three"), tmp_path).index == 0
    assert [placement.spec.name for placement in labs()] == ["three", "two"]


def test_a_lab_of_another_version_keeps_its_place(tmp_path: Path) -> None:
    """It has options that this version doesn't know: it is named, and doesn't keep others from being made."""
    claim(LabSpec("newer"), tmp_path)
    file = existing_labs.lab_dir("newer") / "lab.json"
    file.write_text(file.read_text().replace('"host_names"', '"of_tomorrow"'))
    assert claim(LabSpec("one"), tmp_path).index == 1
    with pytest.raises(LabError, match=r"lab newer has options .*: of_tomorrow"):
        labs()


def test_what_a_lab_has_of_another_cluster_is_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else reads its labels and flags; who may not is told so."""
    claim(LabSpec("one", like="{}"), tmp_path)
    assert (existing_labs.lab_dir("one") / "lab.json").stat().st_mode & 0o777 == 0o600

    def refuse(_: Path) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(LabError, match="lab one can't be read: it belongs to root"):
        find("one")


def test_networks_that_the_machine_uses_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A route into a lab's range moves the lab to the next one."""
    monkeypatch.setattr(existing_labs, "_networks_in_use", lambda: [IPv4Network("10.128.7.0/24")])
    assert claim(LabSpec("one"), tmp_path).network == "10.129.0.0/16"


def test_only_one_at_a_time_makes_or_removes_a_lab(tmp_path: Path) -> None:
    """While one holds a lab, a second is told so at once; other labs are free, and so is this one afterwards."""
    claim(LabSpec("one"), tmp_path)
    claim(LabSpec("two"), tmp_path)
    with exclusive("one"):
        with pytest.raises(LabError, match="removing lab one"), exclusive("one"):
            raise AssertionError
        with exclusive("two"):
            pass
    with exclusive("one"):
        pass


def test_a_lab_is_complete_when_it_was_said_so(tmp_path: Path) -> None:
    """A lab whose making was cut short is told from one that was finished."""
    claim(LabSpec("one"), tmp_path)
    assert not is_complete("one")
    set_complete("one")
    assert is_complete("one")


def test_a_lab_that_is_like_another_cluster_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is so when its objects were created, refused ones or not; a lab that is like none has nothing to get."""
    lab = Lab(claim(LabSpec("one", like='{"a": 1}'), tmp_path))
    monkeypatch.setattr(KubeadmCluster, "create", lambda *_: ("refused",))
    monkeypatch.setattr(KubeadmCluster, "unready_workloads", lambda *_: ())
    assert not lab.filled and Lab(claim(LabSpec("plain"), tmp_path)).filled
    assert lab.fill([]).refused == ("refused",)
    assert lab.filled


def test_the_last_lab_leaves_no_folder_behind(tmp_path: Path) -> None:
    """Whatever was left in the labs' folder goes with it, and nothing beside it does; gone already is as good."""
    (labs_root() / "one" / "nodes").mkdir(parents=True)
    beside = tmp_path / "beside"
    beside.mkdir()
    for _ in range(2):
        remove_root()
        assert not labs_root().exists()
    assert beside.exists()


def test_a_file_system_for_labs_stays_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody mounted a file system for the labs, it is emptied and not taken away."""
    (labs_root() / "one" / "nodes").mkdir(parents=True)
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    remove_root()
    assert labs_root().exists()
    assert not list(labs_root().iterdir())
