"""A plan that is shown has every step that its run will have, in that order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.app.test_saved_plans import NAMESPACES
from tests.unit.app.test_upgrade import FakeSession
from tests.unit.engine.killing import TO, World
from tests.unit.steps.images.bundle.archives import image_archive
from upgrader.app import upgrade
from upgrader.app.front_end import FrontEnd
from upgrader.app.upgrade import plan_upgrade, propose_upgrade, save_plan
from upgrader.app.wiring import Session
from upgrader.cli.ui.plan import print_plan
from upgrader.cli.ui.plan_json import plan_json
from upgrader.cli.ui.plan_markdown import plan_markdown
from upgrader.engine.locks.fence import Fence
from upgrader.errors import Blocked, UsageError
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.cluster import Cluster, Host
from upgrader.model.image_settings import ImageSettings
from upgrader.model.settings import AvailabilitySettings, BackupSettings, PlaybookSettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Tools
from upgrader.steps.images.bundle.writing import write_bundle

IMAGE = "registry.example/web:2"
VALUES = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "namespace": "kube-system"},
    "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": IMAGE}]}}},
}


class Place:
    """A cluster, and a folder whose settings a test can change."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder.parent / "journal.jsonl")
        self.folder = folder
        folder.mkdir()
        for name in ("hosts.yml", "smoke.yml"):
            (folder / name).write_text("a: 1\n")
        self.settings = Settings(
            folder,
            TO,
            folder / "kubeconfig",
            folder / "hosts.yml",
            (
                ReleaseSettings("a", "kube-system", folder / "chart", VALUES),
                PlaybookSettings("smoke", folder / "smoke.yml"),
            ),
            availability=AvailabilitySettings(0.0),
        )

    def everything(self) -> None:
        """Let a run have each kind of step of its own."""
        archive = image_archive(self.folder.parent / "a.tar", IMAGE)
        write_bundle(self.folder.parent / "bundle.tar", TO, [archive], {})
        self.settings = replace(
            self.settings,
            backup=BackupSettings(("age1someone",), self.folder / "backups"),
            images=ImageSettings(bundle=self.folder.parent / "bundle.tar"),
            bake_seconds=60.0,
        )
        self.world.helm._pending("a", "half")
        self.world.clock.sleep(3600)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A pipeline of a release and a playbook."""
    made = Place(tmp_path / "cluster")
    world = made.world
    world.kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": "uid-1"}})
    for revision in (1, 2):
        record = {"metadata": {"name": f"sh.helm.release.v1.a.v{revision}", "namespace": "kube-system"}}
        world.kube.put(SECRETS, {**record, "data": {"release": f"revision {revision}"}})
    tools = Tools(world.helm, world.kube, world.playbooks, world.clock, world.hosts)

    @contextmanager
    def opened(
        _folder: Path, _target: KubernetesVersion | None = None, _kubeconfig: Path | None = None
    ) -> Iterator[Session]:
        settings = made.settings
        hosts = (Host("controller-1", "10.0.0.2"),)
        cluster = Cluster(made.folder, settings.kubeconfig, "demo", settings.inventory, hosts)
        yield FakeSession(settings, cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock))

    monkeypatch.setattr(upgrade, "open_session", opened)
    return made


def steps_of_the_run(place: Place) -> list[str]:
    """Those that the journal of a run says that it has."""
    with propose_upgrade(place.folder, TO, FrontEnd(), take_over=False) as proposed:
        return list(proposed.execute().state.planned)


ALL = ["backup", "bundle", "images", "free a", "a", "smoke", "bake"]


@pytest.mark.parametrize("everything", [False, True])
def test_a_plan_has_the_steps_of_its_run(place: Place, everything: bool) -> None:
    """Whatever the settings ask for: the backup, a bundle's images, the pull, a release that is freed, the bake."""
    if everything:
        place.everything()
    shown = plan_upgrade(place.folder, TO).document
    assert [step.name for step in shown.steps] == (ALL if everything else ["images", "a", "smoke"])
    assert [step.name for step in shown.steps] == steps_of_the_run(place)


def test_each_form_of_a_plan_has_every_step(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, JSON and Markdown say what each does; of the run's own none needs an undo, and one changes."""
    place.everything()
    shown = plan_upgrade(place.folder, TO).document
    print_plan(shown, diff=False)
    text = capsys.readouterr().err
    markdown = plan_markdown(shown)
    kinds = {step["name"]: (step["kind"], step["action"]) for step in json.loads(plan_json(shown))["steps"]}
    assert kinds == {
        "backup": ("preparation", "prepare"),
        "bundle": ("preparation", "prepare"),
        "images": ("preparation", "prepare"),
        "free a": ("free", "free"),
        "a": ("release", "upgrade"),
        "smoke": ("playbook", "playbook"),
        "bake": ("bake", "bake"),
    }
    for said in (text, markdown):
        assert "an encrypted backup into" in said and "pre-pull 1 image" in said
        assert "roll a back from an upgrade that was never completed" in said and "check all gates for 60 s" in said
    assert {step.undo.how for step in shown.steps if step.name not in ("a", "smoke")} == {"not-needed"}
    assert [step.name for step in shown.steps if step.to_do] == ["free a", "a", "smoke"]


def test_a_saved_plan_is_bound_to_the_run_s_own_steps(place: Place) -> None:
    """A backup that is no longer taken was approved: without it, it is another run."""
    place.settings = replace(place.settings, backup=BackupSettings(("age1someone",), place.folder / "backups"))
    save_plan(place.folder, TO, place.folder.parent / "plan.json")
    place.settings = replace(place.settings, backup=BackupSettings())
    with (
        pytest.raises(Blocked, match="the steps were preparation backup: an encrypted backup into"),
        propose_upgrade(place.folder, None, FrontEnd(), take_over=False, saved_in=place.folder.parent / "plan.json"),
    ):
        pass


def test_a_saved_plan_is_bound_to_what_its_bundle_has(place: Place) -> None:
    """Another bundle of the same name, whose checksums are right, has other images."""
    place.everything()
    save_plan(place.folder, TO, place.folder.parent / "plan.json")
    other = image_archive(place.folder.parent / "b.tar", IMAGE, layer=b"another")
    (place.folder.parent / "bundle.tar").unlink()
    write_bundle(place.folder.parent / "bundle.tar", TO, [other], {})
    with (
        pytest.raises(Blocked, match=r"\(the content of the bundle\) changed"),
        propose_upgrade(place.folder, None, FrontEnd(), take_over=False, saved_in=place.folder.parent / "plan.json"),
    ):
        pass


def test_a_plan_refuses_a_bundle_with_a_wrong_checksum(place: Place) -> None:
    """Whoever plans today, and runs tomorrow, hears of it today."""
    place.everything()
    bundle = place.folder.parent / "bundle.tar"
    content = bytearray(bundle.read_bytes())
    content[content.index(b"layer")] ^= 1
    bundle.write_bytes(content)
    with pytest.raises(UsageError, match=str(bundle)):
        plan_upgrade(place.folder, TO)
