"""What a controller does with the image of its etcd, with a kubelet that goes by the manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.steps.etcd.members import MANIFEST, NEW, NEXT, OLD
from upgrader.onhost.common.private_folder import locked
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.etcd import kept_image, member, running
from upgrader.onhost.etcd.manifest import image_of
from upgrader.onhost.etcd.member import Member
from upgrader.onhost.facts import etcd_facts
from upgrader.onhost.node.cri import Container, ContainerStatus, Image, Sandbox

UID = "ab" * 16
HEALTHY = {"healthy": True, "said": "", "version": "", "members": []}


@dataclass
class Kubelet:
    """A container runtime, and the kubelet that starts what the manifest says each time somebody looks."""

    manifest: Path
    agreed: str = "3.6.0"
    """On which version all members have agreed, once it has started the next one."""
    ends: set[str] = field(default_factory=set)
    """Images whose container ends at once."""
    absent: set[str] = field(default_factory=set)
    """Images that aren't on the node."""
    stuck: bool = False
    """Whether it starts nothing more."""
    silent: bool = False
    slow: int = 0
    """How many times it is asked before it does what a changed manifest says."""
    one_image: bool = False
    """Whether all names mean the same image."""
    recovers: bool = False
    """Whether a container that ended is followed by one that runs on."""
    image_now: str = OLD
    attempt: int = 0
    waited: int = 0

    def sandboxes(self) -> list[Sandbox]:
        """Those of etcd, and one of a backup."""
        if self.silent:
            raise Failed("no socket")
        wanted = image_of(self.manifest.read_text())
        changed = wanted != self.image_now
        waits, self.waited = changed and self.waited < self.slow, (self.waited + 1) * changed
        if not self.stuck and not waits and (wanted != self.image_now or wanted in self.ends):
            if self.recovers and wanted == self.image_now:
                self.ends.discard(wanted)
            self.image_now, self.attempt = wanted, self.attempt + 1
        container = Container(self.image_now, "s", "etcd", self._state(), self.attempt)
        other = Container("backup", "b", "etcd", "running", 99)
        return [
            Sandbox(
                "s",
                "kube-system",
                "etcd-controller-1",
                ready=True,
                from_file=True,
                labels={"io.kubernetes.pod.uid": UID},
                containers=(container,),
            ),
            Sandbox("b", "kube-system", "upgrader-etcd-1", ready=True, from_file=True, labels={}, containers=(other,)),
        ]

    def status(self, container: str) -> ContainerStatus:
        """As the runtime tells of it."""
        code = 1 if self._state() == "exited" else 0
        ref = self._ref(container)
        return ContainerStatus(
            "etcd", self.attempt, self._state(), ref, self.attempt, 0, 0, code, "Error", "", "/log/etcd", ref
        )

    def image(self, name: str) -> Image | None:
        """By its name."""
        return None if name in self.absent else Image(self._ref(name), ())

    def _ref(self, name: str) -> str:
        return f"sha256:{'one' if self.one_image else name}"

    def _state(self) -> str:
        return "exited" if self.image_now in self.ends else "running"


@dataclass
class Controller:
    """A controller whose etcd answers as told."""

    root: Path
    kubelet: Kubelet
    answers: Callable[[], dict[str, Any]]

    @property
    def member(self) -> Member:
        """What is sent there."""
        return Member(str(self.root), self.kubelet)  # type: ignore[arg-type]

    @property
    def agreed(self) -> str:
        """On which version all members have agreed."""
        return self.kubelet.agreed if self.kubelet.attempt else "3.6.0"

    @property
    def manifest(self) -> str:
        """What is in it."""
        return self.kubelet.manifest.read_text()


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A healthy one, on which waiting takes no time."""
    path = tmp_path / "etc/kubernetes/manifests/etcd.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(MANIFEST)
    log = tmp_path / "log/etcd"
    log.parent.mkdir()
    log.write_text("2026-01-01T00:00:00Z stderr F panic: no space left\n")
    made = Controller(tmp_path, Kubelet(path), lambda: HEALTHY)
    monkeypatch.setattr(etcd_facts, "server", lambda root, expected: made.answers())
    monkeypatch.setattr(etcd_facts, "asked", lambda root, path, body=None: {"etcdcluster": made.agreed})
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: time[0], sleep=sleep))
    return made


def test_a_change_and_its_way_back(controller: Controller) -> None:
    """Only the image changes; put back, the manifest is what it was, byte for byte. Both may be repeated."""
    member = controller.member
    assert member.look() == {"image": OLD, "runs": True, "server": HEALTHY, "cluster_version": "3.6.0"}
    for _ in range(2):
        assert member.change(OLD, NEW, "3.6.8", 10) == {"image": NEW}
        assert controller.manifest == MANIFEST.replace(OLD, NEW)
    for _ in range(2):
        assert member.put_back(NEW, 10) == {"image": OLD, "back": ""}
        assert controller.manifest == MANIFEST
    assert controller.kubelet.attempt == 2


def test_a_container_that_ends(controller: Controller) -> None:
    """It isn't waited for until the deadline: a single member is an API that doesn't answer."""
    controller.kubelet.ends = {NEW}
    found = controller.member.change(OLD, NEW, "3.6.8", 600)
    assert found["wrong"] == "its container is exited with code 1 (Error); it wrote last:\npanic: no space left"
    assert (found["image"], found["back"], controller.manifest) == (OLD, "", MANIFEST)
    assert controller.kubelet.attempt == 2


def test_the_same_image_by_another_name(controller: Controller) -> None:
    """As after a move to another registry: what runs already is no proof; the kubelet is about to restart it."""
    controller.kubelet.one_image, controller.kubelet.slow = True, 8
    moved = "mirror.example.com/etcd:3.6.5-0"
    assert controller.member.change(OLD, moved, "3.6.5", 60) == {"image": moved}
    assert (controller.kubelet.image_now, controller.kubelet.attempt) == (moved, 1)
    assert controller.member.put_back(moved, 60) == {"image": OLD, "back": ""}
    assert (controller.kubelet.image_now, controller.kubelet.attempt) == (OLD, 2)
    controller.kubelet.stuck = True
    found = controller.member.change(OLD, moved, "3.6.5", 10)
    assert "the kubelet has not started it yet" in found["wrong"] and found["back"] == "", "it was never restarted"


def test_a_port_that_is_not_free_yet(controller: Controller) -> None:
    """The container of the pod before may still have it: once isn't the end."""
    (controller.root / "log/etcd").write_text("2026-01-01T00:00:00Z stderr F bind: address already in use\n")
    controller.kubelet.ends = {NEW}
    found = controller.member.change(OLD, NEW, "3.6.8", 600)
    assert "address already in use" in found["wrong"] and controller.kubelet.attempt > 2


def test_a_port_that_is_free_for_the_next_container(controller: Controller) -> None:
    """The one after it is given the time that a member needs until it answers."""
    (controller.root / "log/etcd").write_text("2026-01-01T00:00:00Z stderr F bind: address already in use\n")
    controller.kubelet.ends, controller.kubelet.recovers = {NEW}, True
    answers = iter([{**HEALTHY, "healthy": False, "said": "no leader yet"}] * 9)
    controller.answers = lambda: next(answers, HEALTHY)
    assert controller.member.change(OLD, NEW, "3.6.8", 600) == {"image": NEW}


def test_the_old_image_may_end_once_more(controller: Controller) -> None:
    """On the way back nothing is left but to wait until the deadline."""
    controller.member.change(OLD, NEW, "3.6.8", 10)
    controller.kubelet.ends = {OLD}
    assert controller.member.put_back(NEW, 10)["back"].startswith("waited 10 s: its container is exited with code 1")


def test_one_that_never_starts(controller: Controller) -> None:
    """The deadline ends it, and says what was waited for."""
    controller.kubelet.stuck = True
    found = controller.member.change(OLD, NEW, "3.6.8", 10)
    words = f"waited 10 s: no container of {NEW} runs: the kubelet has not started it yet"
    assert found["wrong"] == words and controller.manifest == MANIFEST


def test_a_runtime_that_is_silent(controller: Controller) -> None:
    """Nothing is changed where nobody could see what becomes of it; a wait says that it can't be seen."""
    controller.kubelet.silent = True
    with pytest.raises(Failed, match="no socket"):
        controller.member.change(OLD, NEW, "3.6.8", 10)
    assert controller.manifest == MANIFEST
    assert controller.member.look()["runs"] == {"unknown": "no socket"}
    wait = running.Watch(controller.kubelet, OLD, "").wait(10)  # type: ignore[arg-type]
    assert wait == "waited 10 s: the container runtime does not answer: no socket"


def test_a_pod_without_a_uid_keeps_its_own(controller: Controller) -> None:
    """Else the kubelet would wait for the API to delete its mirror pod, and the API for this etcd. The line stays."""
    plain = "".join(line for line in MANIFEST.splitlines(keepends=True) if "uid" not in line and "# So" not in line)
    controller.kubelet.manifest.write_text(plain)
    controller.member.change(OLD, NEW, "3.6.8", 10)
    assert "metadata:\n  # So that" in controller.manifest and f"\n  uid: '{UID}'\n" in controller.manifest
    assert image_of(controller.manifest) == NEW
    controller.member.put_back(NEW, 10)
    lines = controller.manifest.splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith(("  # So", "  uid:"))) == plain


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"healthy": False, "said": "RAFT NO LEADER"}, "etcd is not healthy: RAFT NO LEADER"),
        ({"version": "3.6.5"}, "etcd reports version 3.6.5, but the image should have 3.6.8"),
    ],
)
def test_one_that_is_not_what_it_should_be(controller: Controller, answer: dict[str, Any], words: str) -> None:
    """It runs, and isn't healthy, or isn't the version that was planned."""
    controller.answers = lambda: {**HEALTHY, **(answer if controller.kubelet.image_now == NEW else {})}
    found = controller.member.change(OLD, NEW, "3.6.8", 10)
    assert found == {"wrong": f"waited 10 s: {words}", "image": OLD, "back": ""}


def test_one_that_takes_longer_than_its_deadline(controller: Controller) -> None:
    """It runs, and would be healthy a little later: the old image is back, and what was waited for is said."""
    asked: list[str] = []

    def starts_slowly() -> dict[str, Any]:
        asked.append(controller.kubelet.image_now)
        if controller.kubelet.image_now == NEW and asked.count(NEW) < 100:
            raise Failed("connection refused")
        return HEALTHY

    controller.answers = starts_slowly
    found = controller.member.change(OLD, NEW, "3.6.8", 10)
    assert found["wrong"] == "waited 10 s: etcd doesn't answer: connection refused"
    assert (found["image"], found["back"], controller.manifest) == (OLD, "", MANIFEST)
    asked.clear()
    assert controller.member.change(OLD, NEW, "3.6.8", 30) == {"image": NEW}, "with a longer one it stays"


def test_what_holds_up_the_old_etcd_is_ended(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again while it ends, both ways, and no longer once the new one runs: those are its own clients."""
    ended: list[tuple[int, str]] = []

    class Clients:
        """Those of one port."""

        def __init__(self, port: int) -> None:
            self.port = port

        def end_abandoned(self) -> None:
            """Notes which etcd they are of."""
            ended.append((self.port, controller.kubelet.image_now))

    monkeypatch.setattr(member, "Streams", Clients)
    controller.kubelet.slow = 3
    controller.member.change(OLD, NEW, "3.6.8", 10)
    controller.kubelet.waited = 0
    controller.member.put_back(NEW, 10)
    assert set(ended) == {(2379, OLD), (2379, NEW)}
    assert [image for _, image in ended] == sorted((image for _, image in ended), key=[OLD, NEW].index)


def test_an_older_minor_is_not_started_on_newer_data(controller: Controller) -> None:
    """A single member has raised its data's version by itself; it isn't what was planned, but the old one would end."""
    controller.kubelet.agreed = "3.7.0"
    controller.answers = lambda: {**HEALTHY, "version": "3.7.3"}
    found = controller.member.change(OLD, NEXT, "3.7.2", 10)
    assert found["image"] == NEXT and "etcd's cluster version is now 3.7.0" in found["back"]
    assert controller.manifest == MANIFEST.replace(OLD, NEXT)
    assert controller.member.put_back(NEXT, 10)["image"] == NEXT, "nor later"
    assert controller.kubelet.attempt == 1


def test_one_that_does_not_answer_even_with_its_old_image(controller: Controller) -> None:
    """Both are said."""

    def refused() -> dict[str, Any]:
        raise Failed("connection refused")

    controller.answers = refused
    found = controller.member.change(OLD, NEW, "3.6.8", 10)
    assert found["back"] == "waited 10 s: etcd doesn't answer: connection refused"


def test_nothing_is_changed_where_the_image_is_missing_or_somebody_else_was_there(controller: Controller) -> None:
    """A restart must not be a pull, and another's change stays."""
    controller.kubelet.absent = {NEW}
    with pytest.raises(Failed, match="is not on this node; nothing was changed"):
        controller.member.change(OLD, NEW, "3.6.8", 10)
    with pytest.raises(Failed, match=f"now has the image {OLD}"):
        controller.member.change("other:1", NEW, "3.6.8", 10)
    assert controller.manifest == MANIFEST
    assert controller.member.put_back(NEW, 10) == {"image": OLD, "back": ""}, "no change got this far"


def test_what_is_put_back_is_what_this_controller_has_kept(controller: Controller) -> None:
    """Not another image's, none that isn't known, and none over a later change of somebody else."""
    controller.member.change(OLD, NEW, "3.6.8", 10)
    controller.kubelet.manifest.write_text(MANIFEST.replace(OLD, "other:1"))
    assert controller.member.put_back(NEW, 10) == {
        "image": "other:1",
        "back": "the image has been changed again since",
    }
    found = controller.member.put_back("other:1", 10)
    assert found["back"] == "this controller has no record of its previous image"
    kept = controller.root / "var/lib/upgrader/etcd/image.json"
    assert json.loads(kept.read_text()) == {"before": {NEW: OLD}, "agreed": {NEW: "3.6.0"}}
    assert kept.stat().st_mode & 0o777 == 0o600
    for number in range(9):
        kept_image.keep(str(kept.parent), NEW, f"later:{number}", "")
    assert kept_image.before(str(kept.parent), NEW) == "" and kept_image.before(str(kept.parent), "later:8") == NEW
    kept.write_text("{")
    with pytest.raises(Failed, match="can't be read"):
        controller.member.put_back(NEW, 10)


def test_two_changes_at_once(controller: Controller) -> None:
    """What was sent may outlive its connection: the next one says that it is still there, and changes nothing."""
    before = controller.manifest
    with (
        locked(str(controller.root / "var/lib/upgrader/etcd"), 1, ""),
        pytest.raises(Failed, match="an earlier change"),
    ):
        controller.member.change(OLD, NEW, "3.6.14", -15)
    assert controller.manifest == before


def test_a_controller_without_etcd(controller: Controller) -> None:
    """It says so."""
    controller.kubelet.manifest.unlink()
    assert controller.member.look() == {"absent": True}
