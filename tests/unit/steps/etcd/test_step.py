"""The step of etcd's members: one after the other, each proven, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.steps.etcd.members import NAMES, NEW, NEXT, OLD, Controllers
from upgrader.errors import Blocked, HostError, RollbackFailed, StepFailed
from upgrader.model.release import RestorePoint
from upgrader.steps.etcd.step import EtcdInspector, EtcdStep


def captured(controllers: Controllers, image: str = NEW) -> RestorePoint:
    """What the step has to go back to."""
    return controllers.step(image).capture()


def changed(controllers: Controllers) -> list[str]:
    """Which members were restarted, in which order, and who led meanwhile."""
    return [line.replace(NEW, "new").replace("controller-", "") for line in controllers.told]


def test_the_leader_comes_last_and_hands_over() -> None:
    """Each member in turn; the one that leads has a changed one lead before it is restarted."""
    controllers, notes = Controllers(), list[str]()
    controllers.step().apply(notes.append)
    assert changed(controllers) == ["2 change new", "3 change new", "1 lead 2", "1 change new"]
    assert set(controllers.images.values()) == {NEW}
    assert notes[0] == f"controller-2: {OLD} → {NEW}" and notes[1] == "controller-2: etcd 3.6.8 is healthy"


def test_a_single_member() -> None:
    """It has nobody to hand over to."""
    controllers = Controllers(("controller-1",))
    controllers.step().apply(lambda text: None)
    assert changed(controllers) == ["1 change new"]


def test_the_api_shows_what_each_member_runs() -> None:
    """Forward and back; where it does not, the step has done its work all the same, and says so."""
    controllers, notes = Controllers(("controller-1",)), list[str]()
    point = captured(controllers)
    controllers.step().apply(notes.append)
    controllers.unseen = "the pod etcd-controller-1 is not Ready"
    controllers.step(before={"controller-1": OLD}).undo(point, notes.append)
    assert controllers.shown == [f"controller-1 {NEW}", f"controller-1 {OLD}"]
    assert notes[-1] == f"controller-1: etcd runs {OLD}, but its pod in the API does not show it: {controllers.unseen}"
    assert len(notes) == 4


def test_the_way_back_of_no_member_waits_for_the_api() -> None:
    """It may be what brings the API back: all have their image again before anybody waits for what the API shows, and
    that is waited for once, also after an undo that was cut off.
    """
    controllers, notes = Controllers(), list[str]()
    point = captured(controllers)
    controllers.step().apply(lambda text: None)
    controllers.told.clear()
    controllers.shown.clear()
    controllers.unseen = "the API server does not answer"
    told: list[int] = []
    step = controllers.step(before=dict.fromkeys(NAMES, OLD))
    show = step.show

    def shown(name: str, image: str, note: Callable[[str], None]) -> str:
        told.append(len(controllers.told))
        return show(name, image, note)

    step = replace(step, show=shown)
    step.undo(point, notes.append)
    assert told == [len(controllers.told)] and controllers.shown == [f"controller-1 {OLD}"]
    assert notes[-1] == f"controller-1: etcd runs {OLD}, but its pod in the API does not show it: {controllers.unseen}"
    controllers.unseen = ""
    step.undo(point, notes.append)
    assert controllers.shown[1:] == [f"{name} {OLD}" for name in NAMES]


def test_the_control_plane_gets_time_to_come_back() -> None:
    """What lost its lease meanwhile ends, and is started again: no gate is to see that, but for ever isn't waited."""
    controllers = Controllers(("controller-1",), unwell=30)
    step = controllers.step()
    point = step.capture()
    step.apply(lambda text: None)
    assert 28 <= step.clock.monotonic() < 40
    controllers.unwell = 10_000
    back = controllers.step(before={"controller-1": OLD})
    back.undo(point, lambda text: None)
    assert 179 <= back.clock.monotonic() < 200


def test_only_what_is_left_is_changed_and_other_controllers_are_left_alone() -> None:
    """Of an interrupted run one member has the image; a controller without etcd is none of its business."""
    controllers = Controllers(images={"controller-2": NEW}, external={"controller-9"})
    step = controllers.step(before=dict.fromkeys(NAMES, OLD))
    assert EtcdInspector(step).inspect(None).found == "1 of 3 have it; left: controller-1, controller-3"
    step.apply(lambda text: None)
    assert changed(controllers) == ["3 change new", "1 lead 2", "1 change new"]
    assert EtcdInspector(step).inspect(None).applied


def test_a_member_that_is_behind_is_waited_for() -> None:
    """The next one isn't stopped before the last one has got as far as the others were; at the deadline, never."""
    slow = Controllers(behind={"controller-3": 5})
    step = slow.step()
    step.apply(lambda text: None)
    assert slow.images["controller-1"] == NEW and step.clock.monotonic() > 5
    hopeless = Controllers(behind={"controller-3": 10_000})
    with pytest.raises(StepFailed, match="waited 180 s for all members of etcd: controller-3: etcd is at revision"):
        hopeless.step().apply(lambda text: None)
    assert hopeless.told == []


def test_what_is_waited_for_is_told() -> None:
    """For whom, and how long at most, once for each wait; nothing where all is well."""
    notes = list[str]()
    Controllers().step().apply(notes.append)
    assert not any("waiting" in note for note in notes)
    Controllers(behind={"controller-3": 5}).step().apply(notes.append)
    (told,) = [note for note in notes if "waiting" in note]
    assert "controller-3: etcd is at revision" in told and "up to 180 s" in told
    notes.clear()
    Controllers(unwell=20).step().apply(notes.append)
    (told,) = [note for note in notes if "waiting" in note]
    assert "up to 180 s" in told


def test_a_bad_image_is_put_back_and_ends_the_step() -> None:
    """The controller itself has put it back; the others are not touched."""
    controllers = Controllers(bad={NEW})
    with pytest.raises(StepFailed) as failed:
        controllers.step().apply(lambda text: None)
    assert "its container is exited with code 1" in failed.value.message
    assert f"It runs {OLD} again, and is healthy." in failed.value.message
    assert changed(controllers) == ["2 change new"]
    assert set(controllers.images.values()) == {OLD}


def test_a_bad_image_that_an_interrupted_run_left_is_put_back() -> None:
    """Whoever resumes finds a member that doesn't run: it gets its old image, and the step fails."""
    controllers = Controllers(images={"controller-2": NEW}, healthy={"controller-2": False}, bad={NEW})
    controllers.kept["controller-2"] = OLD
    notes = list[str]()
    with pytest.raises(StepFailed, match="controller-2: etcd doesn't answer: connection refused"):
        controllers.step(before=dict.fromkeys(NAMES, OLD)).apply(notes.append)
    assert notes[1:] == [f"controller-2: etcd is back at the image {OLD}"]
    assert "waiting up to 180 s for all members of etcd: controller-2" in notes[0]
    assert set(controllers.images.values()) == {OLD}


def test_a_changed_member_that_is_healthy_by_now_is_not_restarted_beside_one_that_is_down() -> None:
    """It didn't answer when they were asked first; with the other one down, two of three would be gone."""
    controllers = Controllers(images={"controller-2": NEW}, late={"controller-2": 1}, healthy={"controller-3": False})
    controllers.kept["controller-2"] = OLD
    with pytest.raises(StepFailed, match="controller-3: etcd doesn't answer"):
        controllers.step(before=dict.fromkeys(NAMES, OLD)).apply(lambda text: None)
    assert controllers.told == []


def test_a_member_that_is_down_for_another_reason_is_left_as_it_is() -> None:
    """It isn't this step's: nothing is changed anywhere."""
    controllers = Controllers(healthy={"controller-3": False})
    with pytest.raises(StepFailed, match="controller-3: etcd doesn't answer"):
        controllers.step().apply(lambda text: None)
    assert controllers.told == []


def test_undo_goes_back_and_repeats() -> None:
    """Only the members that were changed, the leader last; a second time there is nothing to do."""
    controllers = Controllers()
    point = captured(controllers)
    controllers.step().apply(lambda text: None)
    controllers.told.clear()
    step, notes = controllers.step(before=dict.fromkeys(NAMES, OLD)), list[str]()
    step.undo(point, notes.append)
    back = ["1 put-back new", "3 put-back new", "2 lead 1", "2 put-back new"]
    assert changed(controllers) == back and notes[0] == f"controller-1: etcd runs {OLD} again"
    assert set(controllers.images.values()) == {OLD}
    step.undo(point, notes.append)
    assert changed(controllers) == back


def test_undo_of_a_member_that_does_not_run_needs_no_healthy_etcd() -> None:
    """A runner was killed, and the power cut, with an image that doesn't start on the only controller."""
    controllers = Controllers(("controller-1",), bad={NEW}, healthy={"controller-1": False})
    point = captured(Controllers(("controller-1",)))
    controllers.images["controller-1"], controllers.kept["controller-1"] = NEW, OLD
    controllers.step(before={"controller-1": OLD}).undo(point, lambda text: None)
    assert controllers.images == {"controller-1": OLD} and controllers.healthy["controller-1"]


def test_an_undo_that_does_not_get_healthy_stops() -> None:
    """The next member isn't stopped as well."""
    controllers = Controllers()
    point = captured(controllers)
    controllers.step().apply(lambda text: None)
    controllers.bad = {OLD}
    with pytest.raises(RollbackFailed, match=f"controller-1: etcd is not healthy with its previous image, {OLD}"):
        controllers.step(before=dict.fromkeys(NAMES, OLD)).undo(point, lambda text: None)
    assert list(controllers.images.values()).count(OLD) == 1


def test_no_way_back_from_a_minor_that_all_have() -> None:
    """The members stay, and the note says what the way back is; while one still has the old minor, they go back."""
    controllers, notes = Controllers(), list[str]()
    point = captured(controllers, NEXT)
    controllers.step(NEXT).apply(lambda text: None)
    controllers.told.clear()
    controllers.step(NEXT, before=dict.fromkeys(NAMES, OLD)).undo(point, notes.append)
    assert controllers.told == [] and notes[0].startswith("etcd stays at 3.7") and "backup" in notes[0]
    mixed = Controllers(images={"controller-2": NEXT, "controller-3": NEXT}, kept=dict.fromkeys(NAMES, OLD))
    mixed.step(NEXT, before=dict.fromkeys(NAMES, OLD)).undo(point, notes.append)
    assert set(mixed.images.values()) == {OLD}


def test_no_way_back_from_a_minor_that_all_have_before_they_agree() -> None:
    """They do so within seconds, and one that was put back just before would never start again."""
    controllers, notes = Controllers(agree_late=True), list[str]()
    point = captured(controllers, NEXT)
    controllers.step(NEXT).apply(lambda text: None)
    controllers.told.clear()
    controllers.step(NEXT, before=dict.fromkeys(NAMES, OLD)).undo(point, notes.append)
    assert controllers.told == [] and notes[0].startswith("etcd stays at 3.7")


def test_no_way_back_from_a_minor_that_was_agreed_on_while_members_were_waited_for() -> None:
    """One that an earlier run had changed wasn't healthy yet when they were asked first."""
    controllers, notes = Controllers(images={"controller-3": NEXT}, agree_late=True), list[str]()
    point = captured(controllers, NEXT)
    controllers.step(NEXT).apply(lambda text: None)
    controllers.told.clear()
    controllers.late = {"controller-3": 2}
    controllers.step(NEXT, before={**dict.fromkeys(NAMES, OLD), "controller-3": NEXT}).undo(point, notes.append)
    assert controllers.told == [] and notes[0].startswith("etcd stays at 3.7")


def test_a_member_that_stays_with_its_new_minor() -> None:
    """Where its controller refuses to put the older one back, what is said isn't that it was."""
    controllers = Controllers(("controller-1",), bad={NEXT}, refuses="etcd's cluster version is now 3.7.0")
    point = captured(controllers, NEXT)
    step = controllers.step(NEXT)
    with pytest.raises(StepFailed, match=f"Its manifest has the image {NEXT}: etcd's cluster version is now 3.7.0"):
        step.apply(lambda text: None)
    with pytest.raises(RollbackFailed, match=f"controller-1: etcd keeps its image, {NEXT}: etcd's cluster version"):
        controllers.step(NEXT, before={"controller-1": OLD}).undo(point, lambda text: None)


def test_a_manifest_that_somebody_else_has_changed() -> None:
    """Before the step it ends the run with nothing changed; in its middle the step fails."""
    controllers = Controllers()
    step = controllers.step()
    controllers.images["controller-3"] = NEXT
    with pytest.raises(Blocked, match="controller-3: etcd's manifest has the image"):
        step.capture()
    with pytest.raises(StepFailed, match="; nothing was changed"):
        step.apply(lambda text: None)


def test_a_connection_that_breaks_fails_the_step() -> None:
    """What was begun goes on there; the next look shows how it ended."""
    controllers = Controllers(lost_after="controller-2")
    step = controllers.step()
    with pytest.raises(StepFailed, match="failed with exit code 255: Connection closed"):
        step.apply(lambda text: None)
    controllers.step(before=dict.fromkeys(NAMES, OLD)).apply(lambda text: None)
    assert set(controllers.images.values()) == {NEW}


def test_a_controller_that_does_not_answer_is_waited_for() -> None:
    """As after a power cut; that is told, and for ever it isn't."""
    for work in (EtcdStep.apply, lambda step, note: EtcdStep.undo(step, RestorePoint(), note)):
        controllers, notes = Controllers(), list[str]()
        controllers.hosts.down = {"controller-2"}
        step = controllers.step()
        with pytest.raises((HostError, StepFailed), match="no answer"):
            work(step, notes.append)
        assert step.clock.monotonic() >= 170
        assert len(notes) == 1 and "controller-2" in notes[0] and "waiting up to 300 s" in notes[0]
