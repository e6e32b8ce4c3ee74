"""A saved plan: exactly that is run, or nothing."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.test_upgrade import FakeSession
from tests.unit.engine.killing import TO, World, manifest
from upgrader.app import saved_plans, upgrade
from upgrader.app.front_end import FrontEnd
from upgrader.app.plan_inputs import plan_inputs
from upgrader.app.saved_plans import VALID, read_plan
from upgrader.app.upgrade import propose_upgrade, save_plan
from upgrader.app.wiring import Session
from upgrader.engine.locks.fence import Fence
from upgrader.errors import ApiError, Inhibited, UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.model.plan import Plan, PlannedRelease
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import AvailabilitySettings, PlaybookSettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, Tools

NAMESPACES = Kind("v1", "namespaces", namespaced=False)
SECRET = "hunter-of-secrets"


@dataclass
class Place:
    """A cluster and its folder, whose values a test can change."""

    world: World
    folder: Path
    values: dict[str, Any] = field(default_factory=lambda: manifest("a", "new"))

    @property
    def file(self) -> Path:
        return self.folder.parent / "plan.json"

    @property
    def settings(self) -> Settings:
        folder = self.folder
        steps = (
            ReleaseSettings("a", "kube-system", folder / "chart", self.values),
            PlaybookSettings("smoke", folder / "smoke.yml", folder / "undo.yml"),
        )
        inventory = folder / "hosts.yml"
        return Settings(folder, TO, folder / "k", inventory, steps, availability=AvailabilitySettings(0.0))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def is_cluster(self, uid: str) -> None:
        self.world.kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": uid}})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A pipeline of a release and a playbook."""
    made = Place(World(tmp_path / "journal.jsonl"), tmp_path / "cluster")
    for name in ("upgrader.yaml", "hosts.yml", "chart/Chart.yaml", "smoke.yml", "undo.yml"):
        made.write(name, "a: 1\n")
    made.is_cluster("uid-1")
    world = made.world
    tools = Tools(world.helm, world.kube, world.playbooks, world.clock, world.hosts)

    @contextmanager
    def opened(_folder: Path, _target: KubernetesVersion | None = None) -> Iterator[Session]:
        settings = made.settings
        hosts = (Host("controller-1", "10.0.0.2"),)
        cluster = Cluster(tmp_path, settings.kubeconfig, "demo", settings.inventory, hosts)
        yield FakeSession(settings, cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock))

    monkeypatch.setattr(upgrade, "open_session", opened)
    return made


def run(place: Place) -> str:
    """`upgrader run --plan`: how the run ended."""
    saved = read_plan(place.file)
    with propose_upgrade(place.folder, TO, FrontEnd(), take_over=False, saved=saved) as proposed:
        return str(proposed.execute().state.outcome)


def test_plan_that_nothing_changed_since_is_run(place: Place) -> None:
    """The run is that of `run` without a plan; only the file's owner can read it."""
    save_plan(place.folder, TO, place.file)
    assert stat.S_IMODE(place.file.stat().st_mode) == 0o600
    place.world.clock.sleep((VALID.total_seconds()) - 60)
    assert run(place) == "succeeded"
    assert "new" in place.world.deployed["a"]


def _revised(place: Place) -> None:
    place.world.helm.install("a", "kind: ConfigMap\nmetadata: {name: other}\n")


CHANGES: dict[str, Callable[[Place], object]] = {
    "it expired at": lambda place: place.world.clock.sleep(VALID.total_seconds()),
    "it was made for another cluster (UID uid-1, this one has uid-2)": lambda place: place.is_cluster("uid-2"),
    "release a was at revision 1, and is at revision 2": _revised,
    "upgrader.yaml changed": lambda place: place.write("upgrader.yaml", "a: 2\n"),
    "the inventory changed": lambda place: place.write("group_vars/all.yml", "a: 2\n"),
    "the chart of a changed": lambda place: place.write("chart/templates/hook.yaml", "{{ fail }}"),
    "the values of a changed": lambda place: place.values.update(manifest("a", "newer")),
    "what a renders to changed": lambda place: place.values.update(manifest("a", "newer")),
    "the playbook of smoke changed": lambda place: place.write("roles/x/tasks/main.yml", "[]\n"),
    "the undo of smoke changed": lambda place: place.write("undo.yml", "a: 2\n"),
    "the API server was at v1.36.3, and is at v1.36.4": lambda place: place.world.kube.raw_answers.update(
        {"/version": json.dumps({"gitVersion": "v1.36.4"})}
    ),
}


@pytest.mark.parametrize("difference", CHANGES)
def test_anything_else_is_refused(place: Place, difference: str) -> None:
    """The message names what differs, and nothing was changed: no release, no playbook, no run's folder."""
    save_plan(place.folder, TO, place.file)
    CHANGES[difference](place)
    before = place.world.deployed
    with pytest.raises(Inhibited) as caught:
        run(place)
    assert difference in caught.value.message
    assert place.world.deployed == before and place.world.playbooks.completed == 0
    assert not list((place.folder / "runs").glob("*/"))


def test_another_version_of_upgrader_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may do something else with the same inputs."""
    save_plan(place.folder, TO, place.file)
    monkeypatch.setattr(saved_plans, "__version__", "9.9.9")
    with pytest.raises(Inhibited, match=r"and this is 9\.9\.9"):
        run(place)


def test_everything_that_differs_is_named(place: Place) -> None:
    """Whoever must plan again sees at once whether a colleague, or another cluster, is behind it."""
    save_plan(place.folder, TO, place.file)
    place.is_cluster("uid-2")
    place.write("hosts.yml", "a: 2\n")
    with pytest.raises(Inhibited) as caught:
        run(place)
    assert len(caught.value.message.splitlines()) == 3


def test_cluster_that_does_not_tell_who_it_is(place: Place) -> None:
    """Without its UID, a plan could be run on any cluster."""
    place.is_cluster("")
    with pytest.raises(ApiError, match="kube-system"):
        save_plan(place.folder, TO, place.file)
    assert not place.file.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format_version": "2.0"}', "\udcff"])
def test_file_that_is_no_plan(place: Place, text: str) -> None:
    """Wrong usage, as the file is not what the option asks for."""
    place.file.write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError, match="not a saved plan"):
        read_plan(place.file)


@pytest.mark.parametrize(
    ("key", "value"), [("format_version", "2.0"), ("expires", "soon"), ("expires", "2026-01-01T00:00:00")]
)
def test_plan_that_was_edited_badly(place: Place, key: str, value: str) -> None:
    """A file of another format, or without a date of expiry, is never run."""
    save_plan(place.folder, TO, place.file)
    place.file.write_text(json.dumps({**json.loads(place.file.read_text()), key: value}))
    with pytest.raises(UsageError, match="not a saved plan"):
        read_plan(place.file)


def test_saved_plan_has_no_secret(place: Place) -> None:
    """Neither a value of a Secret nor anything that a guess of it could be compared with is in the file."""
    files = []
    for secret in (SECRET, "another one"):
        place.values = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"pin": secret}}
        place.write("hosts.yml", f"all: {{vars: {{ansible_password: '{secret}'}}}}\n")
        place.write("group_vars/all.yml", f"db_password: {secret}\n")
        place.write("host_vars/one.yml", f"api_token: |\n  {secret}\n  {secret}\n")
        save_plan(place.folder, TO, place.file)
        files.append(json.loads(place.file.read_text()))
        assert secret not in place.file.read_text()
    assert files[0]["binding"] == files[1]["binding"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("roles/x/files/run.sh", 'TOKEN="$({})"\n'),
        ("chart/templates/job.yaml", "args: [--password={}]\n"),
        ("group_vars/all.yml", "ansible_password: \"{{{{ lookup('pipe', '{}') }}}}\"\n"),
        ("group_vars/all.yml", "token: >-\n  {{{{ lookup('pipe',\n  '{}') }}}}\n"),
    ],
)
def test_command_in_the_place_of_a_secret_counts(place: Place, name: str, line: str) -> None:
    """What is run must be what was approved: only values are masked, no code."""
    place.write(name, line.format("fetch-it"))
    save_plan(place.folder, TO, place.file)
    place.write(name, line.format("break-it"))
    with pytest.raises(Inhibited):
        run(place)


@pytest.mark.parametrize(
    "values",
    [
        {"password": "%s"},
        {"env": [{"name": "DB_PASSWORD", "value": "%s"}]},
        {"database": {"pin": "%s"}},
        {"auth": {"tokens": {"token": ["%s"]}}},
    ],
)
def test_values_that_are_secret(place: Place, values: dict[str, Any]) -> None:
    """By their name, or because they end up in a Secret, however short they are; all others count."""

    def digest(pin: str, size: int) -> str:
        filled = json.loads(json.dumps(values) % pin)
        after = f"kind: Secret\nmetadata: {{name: s}}\nstringData: {{x: '{pin}'}}\n"
        spec = ReleaseSpec("a", "shop", place.folder / "chart", {**filled, "size": size})
        step = PlannedRelease(spec, "upgrade", "", "", after, ())
        inputs = {item.name: item.sha256 for item in plan_inputs(place.settings, Plan(TO, TO, (step,)))}
        return inputs["the values of a"]

    assert digest("1234", 77) == digest("5678", 77) != digest("1234", 78)


def test_inputs_are_the_same_in_another_folder(place: Place, tmp_path: Path) -> None:
    """A plan that was made on one machine is run on another one."""
    save_plan(place.folder, TO, place.file)
    place.folder = place.folder.rename(tmp_path / "elsewhere")
    assert run(place) == "succeeded"
