"""A saved plan: exactly that is run, or nothing."""

from __future__ import annotations

import hashlib
import json
import os
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
from upgrader.app.saved_plans import VALID, read_plan
from upgrader.app.upgrade import propose_upgrade, save_plan
from upgrader.app.wiring import Session
from upgrader.engine.locks.fence import Fence
from upgrader.errors import ApiError, Blocked, UsageError
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.cluster import Cluster, Host
from upgrader.model.settings import AvailabilitySettings, BackupSettings, PlaybookSettings, ReleaseSettings, Settings
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
    backups: str = "backups"

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
        backup = BackupSettings(folder=folder / self.backups)
        return Settings(
            folder, TO, folder / "k", inventory, steps, availability=AvailabilitySettings(0.0), backup=backup
        )

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def record(self, revision: int) -> None:
        """Helm's own record of a revision of release a."""
        made = {"metadata": {"name": f"sh.helm.release.v1.a.v{revision}", "namespace": "kube-system"}}
        self.world.kube.put(SECRETS, {**made, "data": {"release": f"revision {revision}"}})

    def is_cluster(self, uid: str) -> None:
        self.world.kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": uid}})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A pipeline of a release and a playbook."""
    made = Place(World(tmp_path / "journal.jsonl"), tmp_path / "cluster")
    for name in ("upgrader.yaml", "hosts.yml", "chart/Chart.yaml", "smoke.yml", "undo.yml"):
        made.write(name, "a: 1\n")
    made.is_cluster("uid-1")
    made.record(1)
    world = made.world
    tools = Tools(world.helm, world.kube, world.playbooks, world.clock, world.hosts)

    @contextmanager
    def opened(
        _folder: Path, _target: KubernetesVersion | None = None, _kubeconfig: Path | None = None
    ) -> Iterator[Session]:
        settings = made.settings
        hosts = (Host("controller-1", "10.0.0.2"),)
        cluster = Cluster(tmp_path, settings.kubeconfig, "demo", settings.inventory, hosts)
        yield FakeSession(settings, cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock))

    monkeypatch.setattr(upgrade, "open_session", opened)
    return made


def run(place: Place) -> str:
    """`upgrader run --plan`: how the run ended."""
    with propose_upgrade(place.folder, None, FrontEnd(), take_over=False, saved_in=place.file) as proposed:
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
    place.record(2)


CHANGES: dict[str, Callable[[Place], object]] = {
    "expired at": lambda place: place.world.clock.sleep(VALID.total_seconds()),
    "it was made for another cluster (UID uid-1, this one's is uid-2)": lambda place: place.is_cluster("uid-2"),
    "release a was at revision 1 (deployed), last good revision 1, and is now at revision 2 (deployed)": _revised,
    "upgrader.yaml changed": lambda place: place.write("upgrader.yaml", "a: 2\n"),
    "hosts.yml changed": lambda place: place.write("hosts.yml", "a: 2\n"),
    "group_vars/all.yml was added": lambda place: place.write("group_vars/all.yml", "a: 2\n"),
    "chart/templates/hook.yaml was added": lambda place: place.write("chart/templates/hook.yaml", "{{ fail }}"),
    "filter_plugins/x.py was added": lambda place: place.write("filter_plugins/x.py", "import os\n"),
    "smoke.yml was removed": lambda place: (place.folder / "smoke.yml").unlink(),
    "(the values of a) changed": lambda place: place.values.update(manifest("a", "newer")),
    "(the rendered manifest of a) changed": lambda place: place.values.update(manifest("a", "newer")),
    "roles/x/tasks/main.yml was added": lambda place: place.write("roles/x/tasks/main.yml", "[]\n"),
    "undo.yml changed": lambda place: place.write("undo.yml", "a: 2\n"),
    "the API server was at v1.36.3, and is now at v1.36.4": lambda place: place.world.kube.raw_answers.update(
        {"/version": json.dumps({"gitVersion": "v1.36.4"})}
    ),
}


@pytest.mark.parametrize("difference", CHANGES)
def test_anything_else_is_refused(place: Place, difference: str) -> None:
    """The message names what differs, and nothing was changed: no release, no playbook, no run's folder."""
    save_plan(place.folder, TO, place.file)
    CHANGES[difference](place)
    before = place.world.deployed
    with pytest.raises(Blocked) as caught:
        run(place)
    assert difference in caught.value.message
    assert place.world.deployed == before and place.world.playbooks.completed == 0
    assert not list((place.folder / "runs").glob("*/"))


def test_another_version_of_upgrader_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may do something else with the same inputs."""
    save_plan(place.folder, TO, place.file)
    monkeypatch.setattr(saved_plans, "__version__", "9.9.9")
    with pytest.raises(Blocked, match=r"but this is 9\.9\.9"):
        run(place)


def test_everything_that_differs_is_named(place: Place) -> None:
    """Whoever must plan again sees at once all that is behind it."""
    save_plan(place.folder, TO, place.file)
    place.write("undo.yml", "a: 2\n")
    place.write("hosts.yml", "a: 2\n")
    with pytest.raises(Blocked) as caught:
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


def test_message_about_a_file_is_short(place: Place) -> None:
    """Whatever is in it: a file of megabytes would hide what is wrong."""
    save_plan(place.folder, TO, place.file)
    place.file.write_text(json.dumps({**json.loads(place.file.read_text()), "format_version": "x" * 100_000}))
    with pytest.raises(UsageError, match="its format_version is 'xxx") as caught:
        read_plan(place.file)
    assert len(caught.value.message) < 500 + len(str(place.file))


def test_saved_plan_has_no_secret(place: Place) -> None:
    """Neither a value that is secret nor a digest that a guess of it could be compared with is in the file."""
    place.values = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"pin": SECRET}}
    text = f"db_password: {SECRET}\n"
    place.write("group_vars/all.yml", text)
    save_plan(place.folder, TO, place.file)
    saved = place.file.read_text()
    assert SECRET not in saved and hashlib.sha256(text.encode()).hexdigest() not in saved
    first = json.loads(saved)["binding"]["inputs"]
    place.record(1)  # another object of the same content: its UID, which nobody guesses, is part of the key
    place.world.kube.delete(SECRETS, "sh.helm.release.v1.a.v1", "kube-system")
    place.record(1)
    save_plan(place.folder, TO, place.file)
    second = json.loads(place.file.read_text())["binding"]["inputs"]
    assert [item["name"] for item in first] == [item["name"] for item in second]
    assert not {item["digest"] for item in first} & {item["digest"] for item in second}


def test_secret_value_counts(place: Place) -> None:
    """What a run would write is what was approved, passwords as well."""
    place.write("group_vars/all.yml", f"db_password: {SECRET}\n")
    save_plan(place.folder, TO, place.file)
    place.write("group_vars/all.yml", "db_password: another one\n")
    with pytest.raises(Blocked, match=r"group_vars/all\.yml changed"):
        run(place)


def test_what_links_lead_to_counts(place: Place, tmp_path: Path) -> None:
    """Ansible follows links, to files and to folders, wherever they lead; so does the comparison, round in circles."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "tasks").mkdir(parents=True)
    (elsewhere / "tasks" / "main.yml").write_text("[]\n")
    (place.folder / "roles").mkdir()
    (place.folder / "roles" / "linked").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(place.folder)
    (place.folder / "nowhere").symlink_to(tmp_path / "nothing")
    save_plan(place.folder, TO, place.file)
    (elsewhere / "tasks" / "main.yml").write_text("- command: reboot\n")
    with pytest.raises(Blocked, match=r"roles/linked/tasks/main\.yml changed"):
        run(place)


def test_link_that_leads_elsewhere_counts(place: Place, tmp_path: Path) -> None:
    """Also where the same is there now: it may change without the folder."""
    (tmp_path / "one").write_text("a: 1\n")
    (tmp_path / "two").write_text("a: 1\n")
    (place.folder / "linked.yml").symlink_to(tmp_path / "one")
    save_plan(place.folder, TO, place.file)
    (place.folder / "linked.yml").unlink()
    (place.folder / "linked.yml").symlink_to(tmp_path / "two")
    with pytest.raises(Blocked, match=r"link linked\.yml changed"):
        run(place)


def test_pipe_in_the_folder_is_refused(place: Place) -> None:
    """Reading it would wait for ever, and what it says can't be approved."""
    os.mkfifo(place.folder / "values.yaml")
    with pytest.raises(UsageError, match=r"values\.yaml is a pipe"):
        save_plan(place.folder, TO, place.file)


def test_run_folder_and_the_plan_itself_are_no_inputs(place: Place) -> None:
    """What the tool writes into the folder changes no plan."""
    file = place.folder / "plan.json"
    save_plan(place.folder, TO, file)
    place.write("runs/x/journal.jsonl", "")
    place.write("k", "another kubeconfig of the same cluster")
    with propose_upgrade(place.folder, None, FrontEnd(), take_over=False, saved_in=file) as proposed:
        assert proposed.execute().state.outcome == "succeeded"


BACKUP = ("20260101T000000-v1.36.3.tar.age", "20260101T000001-v1.36.3.tar.age.part", "cluster-uid")


@pytest.mark.parametrize("backups", ["backups", "saved/etcd", "."])
def test_backup_that_the_run_takes_is_no_input(place: Place, backups: str) -> None:
    """The first one also makes the folder; each later step compares the inputs again, and finds nothing new."""
    place.backups = backups
    save_plan(place.folder, TO, place.file)
    with propose_upgrade(place.folder, None, FrontEnd(), take_over=False, saved_in=place.file) as proposed:
        for name in BACKUP:
            place.write(f"{backups}/{name}", "a backup\n")
        assert proposed.execute().state.outcome == "succeeded"


@pytest.mark.parametrize("name", ["hosts.yml", "values/web.yaml", "copy-of-20260101T000000.tar.age"])
def test_folder_of_backups_may_have_inputs(place: Place, name: str) -> None:
    """Where it is the cluster folder, only the files that a backup writes are left out."""
    place.backups = "."
    save_plan(place.folder, TO, place.file)
    place.write(name, "a: 2\n")
    with pytest.raises(Blocked, match=name):
        run(place)


def test_input_that_changes_during_the_run_stops_it(place: Place) -> None:
    """Ansible reads its files when its step begins: the step isn't begun, and what was done is rolled back."""
    save_plan(place.folder, TO, place.file)
    with propose_upgrade(place.folder, None, FrontEnd(), take_over=False, saved_in=place.file) as proposed:
        upgrade_chart = place.world.helm.upgrade

        def change_then(*args: Any, **kwargs: Any) -> Any:
            place.write("smoke.yml", "- command: reboot\n")
            return upgrade_chart(*args, **kwargs)

        place.world.helm.upgrade = change_then  # type: ignore[method-assign]
        finished = proposed.execute()
    assert finished.state.outcome == "rolled-back" and place.world.playbooks.completed == 0
    assert finished.error is not None and "smoke.yml changed" in finished.error.message
    assert "old" in place.world.deployed["a"]


def test_cluster_without_helms_records(place: Place) -> None:
    """Nothing in it is secret to the readers of the file: there is no key, and nothing is saved."""
    place.world.kube.delete(SECRETS, "sh.helm.release.v1.a.v1", "kube-system")
    with pytest.raises(UsageError, match="derived from the Secrets of Helm's releases, and this cluster has none"):
        save_plan(place.folder, TO, place.file)
    assert not place.file.exists()


@pytest.mark.parametrize("part", ["expires", "plan"])
def test_plan_that_was_changed_is_refused(place: Place, part: str) -> None:
    """Neither its expiry nor what the approver read can be another than what was saved."""
    save_plan(place.folder, TO, place.file)
    content = json.loads(place.file.read_text())
    content[part] = content[part].replace("20", "21", 1) if part == "expires" else {**content[part], "steps": []}
    place.file.write_text(json.dumps(content))
    with pytest.raises(Blocked, match="changed after it was saved"):
        run(place)


def test_plan_for_another_target(place: Place) -> None:
    """The file says what the target is; `--to` can't say another one."""
    save_plan(place.folder, TO, place.file)
    with (
        pytest.raises(UsageError, match="the saved plan is for"),
        propose_upgrade(
            place.folder, KubernetesVersion.parse("v1.38.0"), FrontEnd(), take_over=False, saved_in=place.file
        ),
    ):
        pass


@pytest.mark.parametrize("kind", ["pipe", "folder", "deep", "huge"])
def test_hostile_file_is_no_plan(place: Place, kind: str) -> None:
    """It is refused at once: nobody waits for it, and no memory is filled."""
    match kind:
        case "pipe":
            os.mkfifo(place.file)
        case "folder":
            place.file.mkdir()
        case "deep":
            place.file.write_text("[" * 200_000)
        case _:
            with place.file.open("wb") as file:
                file.truncate(1024**3)
    with pytest.raises(UsageError, match="not a saved plan"):
        read_plan(place.file)


def test_plan_is_not_written_over_a_device(place: Place) -> None:
    """`--out /dev/stdout` must not replace it by a file."""
    os.mkfifo(place.file)
    with pytest.raises(UsageError, match="not a regular file"):
        save_plan(place.folder, TO, place.file)


def test_inputs_are_the_same_in_another_folder(place: Place, tmp_path: Path) -> None:
    """A plan that was made on one machine is run on another one."""
    save_plan(place.folder, TO, place.file)
    place.folder = place.folder.rename(tmp_path / "elsewhere")
    assert run(place) == "succeeded"
