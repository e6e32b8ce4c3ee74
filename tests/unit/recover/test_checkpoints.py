"""Which generations are compared with Helm's revisions."""

from __future__ import annotations

import json

from testkit.fakes.hosts import FakeHosts
from tests.unit.recover.controllers import controller, generation
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.steps.checkpoints import read_checkpoints


def keep(hosts: FakeHosts, host: str, number: int, image: str = "kube-apiserver:v1") -> None:
    """A generation on a host."""
    kept = generation(number)
    spec = {"containers": [{"name": "kube-apiserver", "image": image}]}
    hosts.files[host, kept.manifest] = json.dumps({"spec": spec}).encode()
    hosts.files[host, f"{kept.folder}/generation.json"] = json.dumps({"entries": {}}).encode()


def read(hosts: FakeHosts, *controllers: Controller) -> tuple[list[int], list[str]]:
    """Numbers of what is compared, in order, and what was noted."""
    notes: list[str] = []
    found = read_checkpoints(hosts, Diagnosis(ApiSeen(answers=True), controllers, ()), notes.append)
    return [checkpoint.number for checkpoint in found], notes


def test_what_cannot_be_read_is_noted_and_left_out() -> None:
    """A controller that is down, and a damaged file, don't keep another controller's generation from being used."""
    hosts = FakeHosts()
    hosts.down.add("controller-1")
    keep(hosts, "controller-2", 4)
    hosts.files["controller-2", f"{generation(4).folder}/generation.json"] = b"{}"
    keep(hosts, "controller-3", 4)
    found, notes = read(hosts, *(controller(f"controller-{n}") for n in (1, 2, 3)))
    assert found == [4]
    assert len(notes) == 2
    assert "no answer" in notes[0]
    assert notes[1].startswith("controller-2: generation 4 can't be parsed")


def test_a_generation_without_its_files_is_none() -> None:
    """A generation that was pruned since the examination is left out without a word."""
    assert read(FakeHosts(), controller()) == ([], [])


def test_what_is_in_use_comes_first() -> None:
    """The older generation that serves now counts before another controller's newest; equal contents count once."""
    hosts = FakeHosts()
    keep(hosts, "controller-1", 4, "kube-apiserver:v2")
    keep(hosts, "controller-2", 3)
    keep(hosts, "controller-3", 4, "kube-apiserver:v2")
    in_use = controller("controller-2", active=3)
    assert read(hosts, controller("controller-1"), in_use, controller("controller-3")) == ([3, 4], [])


def test_a_standby_pod_of_no_known_generation_is_compared_with_nothing() -> None:
    """A generation in use that isn't among those on disk can't be read."""
    hosts = FakeHosts()
    keep(hosts, "controller-1", 4)
    assert read(hosts, controller("controller-1", active=9)) == ([], [])
