"""Folders of clusters that other teams write: nothing in them runs code, or ends or holds up anything but their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread, current_thread, main_thread
from typing import Any

import pytest

from testkit.fleet_folder import write_kubeconfig
from testkit.fleet_machine import Machine, begun, coordinator, inputs, look_until, phases
from testkit.waiting import stretched
from upgrader.fleet.cluster_checks import Questions
from upgrader.fleet.clusters import Answer
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.parallel_inquiry import Inquiry
from upgrader.model.redaction.known_secrets import KNOWN

OTHERS: dict[str, dict[str, Any]] = {
    "server": {"server": "evil"},
    "exec": {"token": "", "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "evil"}},
    "tokenFile": {"tokenFile": "kubeconfig"},
    "file elsewhere": {"tokenFile": "/etc/hostname"},
}
"""What a kubeconfig may have become, as `write_kubeconfig` writes it."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("changed", list(OTHERS))
def test_kubeconfig_that_changes_in_the_middle(machine: Machine, changed: str) -> None:
    """If a kubeconfig is replaced after the approval, nothing is run, read or asked; only its cluster waits."""
    campaign = begun(machine)
    write_kubeconfig(machine.folder / "clusters/b", **OTHERS[changed])
    asked: list[str] = []
    machine.at_ask["evil"] = lambda: asked.append("evil")
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "succeeded"} and asked == []
    said = {"exec": "doesn't allow the command 'evil'", "file elsewhere": "is neither in the cluster folder nor"}
    assert said.get(changed, "upgrader fleet approve --changes b") in decision.waits["b"].reason
    assert decision.waits["b"].person
    write_kubeconfig(machine.folder / "clusters/b", token="rotated")
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_kubeconfig_that_changes_in_the_middle_of_a_run(machine: Machine) -> None:
    """A run works with a copy, which gets new credentials, and nothing else that was not approved."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    copy, cluster = campaign.folder / "clusters/a/kubeconfig", machine.folder / "clusters/a"

    def after_a_minute(**changed: Any) -> bytes:
        write_kubeconfig(cluster, **changed)
        machine.processes = dict.fromkeys(machine.processes, 2)
        machine.clock.sleep(61)
        one.look()
        return copy.read_bytes()

    assert copy.stat().st_mode & 0o077 == 0
    assert b"rotated" in after_a_minute(token="rotated")
    for changed in OTHERS.values():
        assert b"rotated" in after_a_minute(**changed)


def test_folder_that_changes_before_a_resume(machine: Machine) -> None:
    """What was put into a folder while its run was interrupted is run no more than before the first attempt."""
    machine.exit_codes = {"a": [130]}
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["a"].phase == "interrupted")
    hosts = machine.folder / "clusters/a/hosts.yml"
    hosts.write_text("more: {}\n")
    decision, state = one.run(lambda *_: None)
    assert machine.begun == {"a": 1} and state.clusters["a"].active
    command = f"upgrader fleet approve --changes a --digest {inputs(machine, 'a').shown}"
    assert command in decision.waits["a"].reason and decision.waits["a"].person
    hosts.unlink()
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_folder_that_becomes_a_link_to_another(machine: Machine) -> None:
    """Its cluster waits, also in the middle of its run, and reads and ends nothing of the other one's."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["b"].phase == "running")
    folders = [machine.folder / "clusters" / name for name in "bc"]
    for folder in folders:
        folder.rename(folder.with_suffix(".old"))
        folder.symlink_to("a")
    decision, state = one.look()
    assert {state.clusters[name].problem for name in "bc"} == {"unknown"}
    assert all("is now a link to a folder other" in decision.waits[name].reason for name in "bc")
    assert read_fleet(machine.folder, machine.clock.now(), begun=campaign.folder).clusters
    for folder in folders:
        folder.unlink()
        folder.with_suffix(".old").rename(folder)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def _replaced(change: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace_file(path: Path) -> None:
        path.unlink()
        change(path)

    return replace_file


def _inventory_in_a_circle(path: Path) -> None:
    (path.parent / "x").symlink_to("x")
    path.write_text('{"cluster": {"inventory": "x/hosts.yml"}, "kubernetesVersion": "v1.36.3"}')


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": _replaced(os.mkfifo),
    "device": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "circle": _replaced(lambda path: path.symlink_to(path.name)),
    "long name": _replaced(lambda path: path.symlink_to("x" * 300)),
    "folder": _replaced(Path.mkdir),
    "NUL": lambda path: path.write_bytes(b"a: \0\n"),
    "NUL in a name": lambda path: path.write_text(r'{"cluster": {"inventory": "a\0"}, "kubernetesVersion": "v1.36.3"}'),
    "circle in a name": _inventory_in_a_circle,
    "list": lambda path: path.write_text("- a\n"),
    "lists in lists": lambda path: path.write_text("[" * 5000),
    "no entries": lambda path: path.write_text('{"current-context": "c", "contexts": [1], "clusters": 1, "users": ""}'),
    "large": lambda path: os.truncate(path, 1 << 40),
}


@pytest.mark.parametrize("file", ["upgrader.yaml", "kubeconfig"])
@pytest.mark.parametrize("odd", list(ODD_FILES))
def test_odd_files_in_a_folder(machine: Machine, file: str, odd: str) -> None:
    """Whatever takes the place of a file of one cluster is that cluster's reason to wait, and the others go on."""
    campaign = begun(machine)
    ODD_FILES[odd](machine.folder / "clusters/b" / file)
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "succeeded"}
    assert decision.waits["b"].person and "examined" not in decision.waits["b"].reason


def test_question_that_surprises(machine: Machine) -> None:
    """An error that is not foreseen is that cluster's, with its text."""
    campaign = begun(machine)
    machine.at_ask["b"] = lambda: {}["no such key"]  # type: ignore[index]
    one = coordinator(machine, campaign)
    state = look_until(one, lambda state: bool(state.clusters["b"].problem))
    assert "it can't be examined: KeyError" in state.clusters["b"].problem_reason
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_token_that_is_a_word(machine: Machine) -> None:
    """It is masked in what is said of its own cluster, and nowhere else."""
    campaign = begun(machine)
    write_kubeconfig(machine.folder / "clusters/b", token="unreachable")
    machine.at_ask["b"] = lambda: {}["it was unreachable"]  # type: ignore[index]
    state = look_until(coordinator(machine, campaign), lambda state: bool(state.clusters["b"].problem))
    assert "unreachable" not in state.clusters["b"].problem_reason
    assert KNOWN.mask("unreachable") == "unreachable"


def test_clusters_are_asked_at_once(machine: Machine) -> None:
    """One that doesn't answer delays no other: each waits here until the other is asked."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.inquiry = Inquiry()
    both = Barrier(2)
    machine.at_ask |= {"b": lambda: both.wait(stretched(60)), "c": lambda: both.wait(stretched(60))}
    look_until(one, lambda state: state.clusters["b"].phase == "running")
    assert machine.begun == {"a": 1, "b": 1, "c": 1} and not both.broken


class _Mount(Inquiry[str, Any]):
    """Folders of which that of `b` hangs."""

    def answers(self, questions: Mapping[str, Callable[[], Any]]) -> Iterator[tuple[str, Any]]:
        yield from ((name, None if name == "b" else question()) for name, question in questions.items())


@pytest.mark.parametrize("when", ["running", "ended"])
def test_folder_on_a_mount_that_hangs(machine: Machine, when: str) -> None:
    """Only its own cluster waits, with the reason; the others go on, and so does it, once its folder answers."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["b"].phase == "running")
    machine.processes[campaign.folder / "clusters/b/1"] = 1 if when == "ended" else 10**6
    one.reading = _Mount()
    decision, state = one.run(lambda *_: None)
    assert (state.clusters["b"].phase, state.clusters["c"].phase) == ("running", "succeeded")
    assert "its folder has not answered within 20 s" in decision.waits["b"].reason
    machine.processes = {each: min(left, 1) for each, left in machine.processes.items()}
    one.reading = Inquiry()
    machine.clock.sleep(61)
    assert one.run(lambda *_: None)[0].done


def test_folder_that_surprises_in_the_middle_of_a_run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not foreseen is its cluster's, with its text."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["b"].phase == "running")
    with monkeypatch.context() as patch:
        patch.setattr(Questions, "moved", lambda _, cluster, __: {"c": ""}[cluster.name])
        decision, _ = one.look()
    assert "it is unknown whether its run is in progress: KeyError: 'b'" in decision.waits["b"].reason
    assert one.run(lambda *_: None)[0].done


def test_cluster_that_is_still_being_asked(machine: Machine) -> None:
    """After a look's time it counts as unreachable, and isn't asked twice at once."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.inquiry = Inquiry(seconds=0.0)
    answer, asked = Event(), list[bool]()

    def held(kubeconfig: Path) -> Answer:
        asked.append(answer.wait(stretched(60)))
        return machine.ask(kubeconfig)

    one.questions = replace(one.questions, ask=held)
    for _ in range(2):
        decision, state = one.look()
        assert state.clusters["a"].problem == "unreachable"
        assert "has not answered within 0 s" in decision.waits["a"].reason
        machine.clock.sleep(61)
    answer.set()
    one.inquiry = Inquiry()
    assert one.run(lambda *_: None)[0].done and asked[0]


def test_folder_that_hangs_before_its_run(machine: Machine) -> None:
    """What a run needs of its cluster's folder is read where it can hang: its run isn't begun, and others go on."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    read_by = list[Thread]()
    machine.at_prepare = dict.fromkeys("bc", lambda: read_by.append(current_thread()))
    one.reading = _Mount()
    state = look_until(one, lambda state: state.clusters["c"].phase == "succeeded")
    assert state.clusters["b"].problem == "unreachable" and machine.begun == {"a": 1, "c": 1}
    one.reading = Inquiry()
    assert one.run(lambda *_: None)[0].done and machine.begun == {"a": 1, "b": 1, "c": 1}
    assert len(read_by) == 2 and read_by[1] is not main_thread()


def slow_to_prepare(machine: Machine, one: Coordinator) -> Callable[[], None]:
    """Have what the run of `a` needs take longer than a look waits, until the function is called that is returned."""
    reads, done, threads = Event(), Event(), list[Thread]()

    def held() -> None:
        threads.append(current_thread())
        reads.set()
        done.wait(stretched(60))

    def finish() -> None:
        done.set()
        threads[0].join()

    machine.at_prepare["a"] = held
    one.reading = Inquiry(seconds=0.0)
    one.look()
    assert reads.wait(stretched(60))
    return finish


def test_folder_that_takes_longer_than_a_look_to_read(machine: Machine) -> None:
    """What was read is used when it is there, and isn't read again: a large or slow folder is upgraded too."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    finish = slow_to_prepare(machine, one)
    assert campaign.state().clusters["a"].problem == "unreachable" and not machine.begun
    finish()
    one.reading = Inquiry()
    machine.at_prepare["a"] = lambda: pytest.fail("it was read already")
    look_until(one, lambda state: state.clusters["a"].phase == "running")
    assert machine.begun == {"a": 1} and campaign.state().clusters["a"].problem == ""


def test_folder_that_never_answers_before_its_run(machine: Machine) -> None:
    """Its cluster is one problem, not a new one each minute, although its API answers: it is skipped as its stage says,
    and nothing of it is begun.
    """
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    finish = slow_to_prepare(machine, one)
    since = campaign.state().clusters["a"].problem_since
    machine.clock.sleep(61)
    one.look()
    assert campaign.state().clusters["a"].problem_since == since
    machine.clock.sleep(180)
    one.look()
    state = campaign.state().clusters["a"]
    assert state.phase == "skipped" and "unreachable since" in state.reason
    finish()
    assert not machine.begun
