"""The step that runs an Ansible playbook."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.playbooks import FakePlaybooks
from upgrader.errors import PlaybookError, RollbackFailed, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint
from upgrader.ports import CommandResult, PlaybookResult
from upgrader.steps.playbook.playbook_markers import PlaybookInspector, PlaybookMarkers
from upgrader.steps.playbook.step import PlaybookStep


def step(playbooks: FakePlaybooks, undo: Path | None = None) -> PlaybookStep:
    """A step for `tune.yml`."""
    return PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), playbooks, 60.0, markers(), undo_playbook=undo)


def markers(
    hosts: FakeHosts | None = None, playbook: Path = Path("/p/tune.yml"), clock: FakeClock | None = None
) -> PlaybookMarkers:
    """The markers of `tune.yml` on two controllers."""
    hosts = hosts or FakeHosts()
    hosts.commands["install"] = CommandResult(0, "", "")
    controllers = Host("controller-1", "10.0.0.1"), Host("controller-2", "10.0.0.2")
    return PlaybookMarkers(hosts, controllers, playbook, clock or FakeClock())


def quiet(text: str) -> None:
    """Take no notes."""


def test_undo_runs_the_undo_playbook() -> None:
    """A step with an undo playbook is undone by that playbook."""
    playbooks = FakePlaybooks()
    tune = step(playbooks, Path("/p/untune.yml"))
    point = tune.capture()
    assert str(point) == "untune.yml"
    tune.apply(quiet)
    tune.undo(point, quiet)
    assert [name for name, *_ in playbooks.ran] == ["tune.yml", "untune.yml"]


def test_playbook_without_a_way_back_says_so() -> None:
    """A playbook that can't be undone is reported as such, never as undone; no file that a journal names is run."""
    playbooks = FakePlaybooks()
    with pytest.raises(RollbackFailed, match=r"names no playbook that undoes tune\.yml") as caught:
        step(playbooks).undo(RestorePoint(playbook="/tmp/evil.yml"), quiet)
    assert "`undo` of step tune" in caught.value.remedy
    assert "by hand, then run `upgrader resume --done tune`" in caught.value.remedy
    assert playbooks.ran == []


def test_undo_that_fails_names_the_way_by_hand() -> None:
    """An undo playbook that a host refuses is told with Ansible's message, and with what a person can do instead."""
    playbooks = FakePlaybooks({"untune.yml": PlaybookError("controller-1: disk full")})
    with pytest.raises(RollbackFailed, match="disk full") as caught:
        step(playbooks, Path("/p/untune.yml")).undo(RestorePoint(playbook="untune.yml"), quiet)
    assert "upgrader resume --done tune" in caught.value.remedy


@pytest.mark.parametrize("undo", [None, Path("/p/untune.yml")])
def test_playbook_of_a_journal_is_never_run(undo: Path | None) -> None:
    """A restore point may come from a cluster's copy of a journal: no file that it names runs on this machine."""
    playbooks = FakePlaybooks()
    with suppress(RollbackFailed):
        step(playbooks, undo).undo(RestorePoint(playbook="/tmp/evil.yml"), quiet)
    assert [name for name, *_ in playbooks.ran] == ([undo.name] if undo else [])


@pytest.mark.parametrize("undo", [None, Path("/p/untune.yml")])
def test_playbook_that_no_host_has_begun_needs_no_way_back(undo: Path | None) -> None:
    """Ansible refused it before any task: the step fails, and its rollback succeeds, with and without `undo`."""
    playbooks = FakePlaybooks({"tune.yml": PlaybookError("tune.yml could not be run: no module cop", begun=False)})
    tune, notes = step(playbooks, undo), list[str]()
    point = tune.capture()
    with pytest.raises(StepFailed, match="no module cop"):
        tune.apply(quiet)
    tune.undo(point, notes.append)
    assert [name for name, *_ in playbooks.ran] == ["tune.yml"]
    assert notes == ["tune.yml was not started on any host: nothing to undo"]


@pytest.mark.parametrize("what", ["down", "set up anew", "begun since"])
def test_controller_that_does_not_say_so_is_no_proof(what: str) -> None:
    """Where one controller doesn't say that it was refused, it may have been begun: nothing is called undone."""
    hosts, refused = FakeHosts(), PlaybookError("no module cop", begun=False)
    tune = PlaybookStep(
        Path("/p/tune.yml"), Path("/hosts.yml"), FakePlaybooks({"tune.yml": refused}), 60.0, markers(hosts)
    )
    point = tune.capture()
    with pytest.raises(StepFailed):
        tune.apply(quiet)
    if what == "down":
        hosts.down.add("controller-2")
    elif what == "set up anew":
        del hosts.files["controller-2", "/etc/kubernetes/upgrader/playbooks/tune.json"]
    else:
        tune.markers.begin(quiet)
    with pytest.raises(RollbackFailed, match="names no playbook"):
        tune.undo(point, quiet)


def test_controller_that_goes_away_hides_no_refusal() -> None:
    """One that can't be told that its marker is void, as it has just gone, is not why the step failed."""
    hosts = FakeHosts()

    class Refusing(FakePlaybooks):
        def run(self, *_: Any, **__: Any) -> PlaybookResult:
            hosts.down.add("controller-2")
            raise PlaybookError("no module cop", begun=False)

    tune = PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), Refusing(), 60.0, markers(hosts))
    with pytest.raises(StepFailed, match="no module cop"):
        tune.apply(quiet)


def test_failed_playbook_fails_the_step() -> None:
    """A host that fails makes the step fail, with Ansible's own message."""
    with pytest.raises(StepFailed, match="controller-1: install"):
        step(FakePlaybooks({"tune.yml": PlaybookError("controller-1: install failed")})).apply(quiet)


def test_playbook_that_was_completed_is_known_by_its_markers(tmp_path: Path) -> None:
    """After a kill it isn't run again if every controller's marker shows that it completed in this run."""
    file = tmp_path / "tune.yml"
    file.write_text("- hosts: all\n")
    marks = markers(playbook=file)
    tune = PlaybookStep(file, Path("/hosts.yml"), FakePlaybooks(), 60.0, marks)
    tune.apply(quiet)
    point = tune.capture()
    assert not PlaybookInspector(marks).inspect(point).applied, "that was another run"
    tune.apply(quiet)
    assert PlaybookInspector(marks).inspect(point).applied
    file.write_text("- hosts: none\n")
    assert not PlaybookInspector(marks).inspect(point).applied, "it is another playbook now"


def test_playbook_that_was_cut_off_is_run_again() -> None:
    """A marker without an end on any controller, or an unreadable one, means: not completed."""
    hosts = FakeHosts()
    marks = markers(hosts)
    before = marks.begin(quiet)
    assert not marks.completed_since(0)
    marks.complete(before, quiet)
    assert marks.completed_since(0)
    hosts.files["controller-2", "/etc/kubernetes/upgrader/playbooks/tune.json"] = b"[broken"
    assert not marks.completed_since(0)


def test_playbook_is_not_begun_where_that_cannot_be_noted() -> None:
    """With a controller that can't be written, the step fails before the playbook runs."""
    hosts, playbooks = FakeHosts(), FakePlaybooks()
    hosts.down.add("controller-2")
    tune = PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), playbooks, 60.0, markers(hosts))
    with pytest.raises(StepFailed, match="controller-2"):
        tune.apply(quiet)
    assert playbooks.ran == []


class Rebooting(FakeHosts):
    """controller-2 answers again after so many seconds of waiting."""

    def __init__(self, clock: FakeClock, seconds: float, refuses_seconds: float = 0.0) -> None:
        """`refuses_seconds`: for how many of them, at last, its SSH server runs, and refuses the login."""
        super().__init__()
        self.clock, self.seconds, self.refuses_seconds = clock, seconds, refuses_seconds
        self.commands["install"] = CommandResult(0, "", "")

    def begin(self) -> None:
        """It goes down now."""
        self.down.add("controller-2")
        self.back_at = self.clock.monotonic() + self.seconds

    def _check(self, host: Host) -> None:
        if self.down and self.clock.monotonic() >= self.back_at - self.refuses_seconds:
            self.refusing, self.down = self.down, set()
        if self.refusing and self.clock.monotonic() >= self.back_at:
            self.refusing.clear()
        super()._check(host)


class Meanwhile(FakePlaybooks):
    """A playbook in whose time a controller begins to reboot."""

    def __init__(self, begin: Callable[[], object]) -> None:
        super().__init__()
        self.begin = begin

    def run(self, playbook: Path, **options: Any) -> PlaybookResult:
        result = super().run(playbook, **options)
        self.begin()
        return result


@pytest.mark.parametrize("when", ["before", "after"])
def test_controller_that_reboots_is_waited_for(when: str) -> None:
    """By itself, as by unattended upgrades, before the playbook begins or after it has run: that is no reason to roll
    all that was done back. It is told what is waited for.
    """
    clock, notes = FakeClock(), list[str]()
    hosts = Rebooting(clock, 90.0)
    playbooks = Meanwhile(hosts.begin) if when == "after" else FakePlaybooks()
    tune = PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), playbooks, 60.0, markers(hosts, clock=clock))
    point = tune.capture()
    if when == "before":
        hosts.begin()
    tune.apply(notes.append)
    assert [name for name, *_ in playbooks.ran] == ["tune.yml"] and 90 <= clock.monotonic() < 120
    assert tune.markers.completed_since(point.begun)
    assert len([note for note in notes if "controller-2" in note and "waiting up to 300 s" in note]) == 1


def test_controller_that_still_boots_is_waited_for() -> None:
    """Its SSH server answers some seconds before users may log in: pam_nologin refuses them until it has booted."""
    clock = FakeClock()
    hosts = Rebooting(clock, 90.0, refuses_seconds=20.0)
    tune = PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), FakePlaybooks(), 60.0, markers(hosts, clock=clock))
    hosts.begin()
    tune.apply(quiet)
    assert 90 <= clock.monotonic() < 120


def test_controller_that_stays_away_is_not_waited_for_without_end() -> None:
    """The playbook hasn't begun then."""
    clock, playbooks = FakeClock(), FakePlaybooks()
    hosts = Rebooting(clock, 10_000.0)
    tune = PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), playbooks, 60.0, markers(hosts, clock=clock))
    hosts.begin()
    with pytest.raises(StepFailed, match="no answer"):
        tune.apply(quiet)
    assert playbooks.ran == [] and 200 < clock.monotonic() <= 300


def test_start_of_another_process_is_not_recorded_as_completed() -> None:
    """A process that waits for a rebooting controller may have lost the cluster's lock meanwhile: what the other one
    began is completed only once that one says so. Or else a run that is interrupted then would skip the playbook.
    """
    others = markers(hosts := FakeHosts())
    playbooks = Meanwhile(lambda: others.begin(quiet))
    tune = PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), playbooks, 60.0, markers(hosts))
    point = tune.capture()
    tune.apply(quiet)
    assert not others.completed_since(point.begun)
