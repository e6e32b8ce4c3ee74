"""The coordinator: what it does of a decision, and that it goes on wherever it was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import write_fleet
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.errors import ApiUnavailable, UsageError
from upgrader.fleet.campaigns import Campaign, begin, newest_campaign
from upgrader.fleet.clusters import Answer
from upgrader.fleet.coordinator import LOOK_SECONDS, Coordinator
from upgrader.fleet.decide import Wait
from upgrader.fleet.events import CampaignStarted, ClusterInputs, ClusterSkipped, Paused, Pins, RetryRequested, Unpaused
from upgrader.fleet.inputs import folder_digest
from upgrader.fleet.outcomes import CommandEnd
from upgrader.fleet.reading import read_fleet
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion.release("v1.37.1")
EMIT = Journal.emit
FLEET = """\
apiVersion: upgrader.io/v1alpha1
kind: FleetRun
spec:
  target: v1.37.1
  stages:
  - {name: canary, selector: {matchLabels: {ring: canary}}, soak: {for: 3m}, onUnreachable: {wait: 3m, then: skip}}
  - {name: production, selector: {matchLabels: {ring: production}}, maxConcurrency: 2, maxFailures: {rolledBack: 1}}
  exclude: [d]
"""


class Killed(BaseException):
    """The coordinator's process is gone."""


class Machine:
    """What outlives a coordinator: the folder, the clock, the processes, and the clusters behind them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = write_fleet(folder, FLEET), FakeClock()
        self.begun = Counter[str]()
        """How many processes were begun for each cluster."""
        self.processes: dict[Path, int] = {}
        """Attempt → how many more looks it takes."""
        self.ends: dict[Path, CommandEnd] = {}
        self.commands: list[Sequence[str]] = []
        self.exit_codes: dict[str, list[int]] = {}
        """Of a cluster's next runs; then 0."""
        self.answers = {name: Answer(f"u{number}", TARGET) for number, name in enumerate("abc", 1)}
        self.silent: set[str] = set()

    def ask(self, folder: Path) -> Answer:
        if folder.name in self.silent:
            raise ApiUnavailable(f"{folder.name} doesn't answer")
        return self.answers[folder.name]

    # upgrader.fleet.coordinator.Executor

    def start(self, attempt: Path, arguments: Sequence[str]) -> None:
        assert attempt not in self.processes, "no attempt has two processes"
        assert not any(self.processes.get(each, 0) for each in attempt.parent.glob("*")), "no cluster has two processes"
        attempt.mkdir(parents=True)
        self.commands.append(arguments)
        self.begun[attempt.parent.name] += 1
        self.processes[attempt] = 2

    def running(self, attempt: Path) -> bool:
        if self.processes.get(attempt, 0) > 0:
            self.processes[attempt] -= 1
            if not self.processes[attempt]:
                self._ended(attempt)
        return self.processes.get(attempt, 0) > 0

    def end(self, attempt: Path) -> CommandEnd | None:
        return self.ends.get(attempt)

    def _ended(self, attempt: Path) -> None:
        name = attempt.parent.name
        codes = self.exit_codes.get(name)
        code = codes.pop(0) if codes else 0
        run = f"20260101T{len(self.commands):06}-v1.37.1"
        if code in (0, 130):
            folder = self.folder / "clusters" / name / "runs" / run
            folder.mkdir(parents=True)
            journal = Journal(folder / JOURNAL, self.clock)
            EMIT(journal, RunStarted(run, RunKind.UPGRADE, (), f"runs/{run}", target=TARGET))
            if code == 0:
                EMIT(journal, RunEnded(run, "succeeded", 1.0))
            journal.close()
        error = f"{name} failed" if code else ""
        self.ends[attempt] = CommandEnd(code, run, "", error, time=self.clock.now())


def begun(machine: Machine) -> Campaign:
    fleet = read_fleet(machine.folder, machine.clock.now())
    inputs = tuple(ClusterInputs(each.name, folder_digest(each.folder)) for each in fleet.clusters)
    (machine.folder / "runs").mkdir()
    name = "20260101T000000-fleet-v1.37.1"
    campaign, journal = begin(
        machine.folder, CampaignStarted(name, TARGET, Pins("1", "c"), inputs, "me"), machine.clock
    )
    journal.close()
    return campaign


def coordinator(machine: Machine, campaign: Campaign) -> Coordinator:
    fleet = read_fleet(machine.folder, machine.clock.now())
    journal = campaign.reopen(machine.clock)
    return Coordinator(machine.folder, fleet, campaign, journal, machine, machine.clock, machine.ask)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def phases(campaign: Campaign) -> dict[str, str]:
    return {name: each.phase for name, each in campaign.state().clusters.items()}


def test_campaign_to_its_end(machine: Machine) -> None:
    """Stages one after the other, by `upgrader run`; the soak is waited for; the end is in the journal."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    decision, state = one.run(lambda *_: None)
    assert decision.done and state.ended is not None and campaign.state().ended == state.ended
    assert machine.begun == {"a": 1, "b": 1, "c": 1}
    folder = str(machine.folder / "clusters/a")
    assert machine.commands[0] == ["-C", folder, "run", "--to", "v1.37.1", "--yes", "-o", "json"]
    assert (state.ended - campaign.state().started).total_seconds() >= 180  # type: ignore[operator]
    assert newest_campaign(machine.folder) == campaign


@pytest.mark.every_moment
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("moment", range(14))
def test_killed_at_each_append(machine: Machine, moment: int, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before or after any line of the journal, the next coordinator reaches the same end: no cluster has two
    processes, none is forgotten, and a run that was begun isn't begun again.
    """
    machine.exit_codes = {"b": [130], "c": [4]}
    campaign = begun(machine)
    left = [moment]

    def killing(journal: Journal, event: object) -> None:
        if not left[0] and not after:
            left[0] = -1
            raise Killed
        EMIT(journal, event)
        if not left[0]:
            left[0] = -1
            raise Killed
        left[0] -= 1

    campaign.ask(RetryRequested("a", "me"), machine.clock)
    monkeypatch.setattr(Journal, "emit", killing)
    try:
        coordinator(machine, campaign).run(lambda *_: None)
    except Killed:
        monkeypatch.setattr(Journal, "emit", EMIT)
        coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "succeeded", "c": "rolled-back"}
    assert machine.begun == {"a": 1, "b": 2, "c": 1}


def test_blocked_cluster_needs_a_person(machine: Machine) -> None:
    """The campaign ends where nothing goes on, and goes on after a retry; a request is taken once."""
    machine.exit_codes = {"a": [3]}
    campaign = begun(machine)
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert "maxFailures.blocked" in decision.stop and machine.begun == {"a": 1}
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert phases(campaign)["a"] == "waiting", "readers count requests that no coordinator has taken yet"
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert decision.done and machine.begun == {"a": 2, "b": 1, "c": 1}
    assert list((campaign.folder / "requests").iterdir()) == []


def test_request_that_is_in_the_journal_already(machine: Machine) -> None:
    """A coordinator that was killed between the journal and the file doesn't pause the campaign a second time."""
    campaign = begun(machine)
    campaign.ask(Paused("me", "lunch"), machine.clock)
    (file,) = (campaign.folder / "requests").iterdir()
    content = file.read_bytes()
    one = coordinator(machine, campaign)
    assert one.look()[0].stop == "paused by me: lunch" and not file.exists()
    campaign.ask(Unpaused("me"), machine.clock)
    file.write_bytes(content)
    assert one.look()[0].stop == "" and not file.exists() and machine.begun == {"a": 1}


def test_identity_before_action(machine: Machine) -> None:
    """Two kubeconfigs that were swapped are both refused, and nothing of either cluster is begun."""
    campaign = begun(machine)
    machine.answers["b"], machine.answers["c"] = machine.answers["c"], machine.answers["b"]
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert machine.begun == {"a": 1}
    assert decision.waits["b"] == Wait(
        "its kubeconfig leads to the cluster with the UID u3; the inventory has u2", person=True
    )
    assert "UID u2" in decision.waits["c"].reason


def test_unreachable_cluster_is_skipped_and_retried(machine: Machine) -> None:
    """It is asked again each minute, skipped as the stage says, and upgraded once someone retries it."""
    campaign = begun(machine)
    machine.silent = {"a"}
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert (
        state.clusters["a"].phase == "skipped"
        and "none of its clusters has succeeded" in decision.stages["canary"].reason
    )
    machine.silent = set()
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_cluster_that_answers_again(machine: Machine) -> None:
    """Its run begins once its API answers."""
    campaign = begun(machine)
    machine.silent = {"a"}
    one = coordinator(machine, campaign)
    wait = one.look()[0].waits["a"]
    assert wait.reason == "its API to answer: a doesn't answer"
    machine.silent = set()
    machine.clock.sleep(61)
    assert [each.cluster for each in one.look()[0].starts] == ["a"]
    one.look()
    assert machine.begun == {"a": 1}


def test_soak_is_shut_while_a_cluster_does_not_answer(machine: Machine) -> None:
    """No answer, another version and another cluster end no soak."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    for _ in range(3):
        one.look()
        machine.clock.sleep(LOOK_SECONDS)
    machine.clock.sleep(200)
    machine.silent = {"a"}
    assert "a doesn't answer" in one.look()[0].stages["canary"].reason
    machine.silent = set()
    machine.answers["a"] = replace(machine.answers["a"], version=KubernetesVersion.release("v1.36.3"))
    machine.clock.sleep(61)
    assert "v1.36.3 of the cluster with the UID u1 answers" in one.look()[0].stages["canary"].reason
    assert machine.begun == {"a": 1}
    machine.answers["a"] = replace(machine.answers["a"], version=TARGET)
    assert one.run(lambda *_: None)[0].done


def test_files_that_change_in_the_middle(machine: Machine) -> None:
    """An edit of the inventory is named with its line, and nothing more is begun; runs in progress finish."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    inventory = machine.folder / "fleet-inventory.yaml"
    text = inventory.read_text()
    inventory.write_text(text.replace("uid: u3", "uid: u9"))
    decision, _ = one.run(lambda *_: None)
    assert "fleet-inventory.yaml:4: has changed since the campaign began" in decision.stop
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "waiting"}
    inventory.unlink()
    assert "can't be read" in one.look()[0].stop


def test_values_that_change_in_the_middle(machine: Machine) -> None:
    """An edit in a cluster's folder reaches it only once it was approved; credentials and past runs are no edit."""
    campaign = begun(machine)
    cluster = machine.folder / "clusters/b"
    (cluster / "kubeconfig").write_text("new")
    (cluster / ".cache").mkdir()
    (cluster / ".cache/x").write_text("x")
    (cluster / "values").mkdir()
    (cluster / "values/kubernetes.yaml").write_text("a: 1\n")
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "succeeded"}
    assert "upgrader fleet approve --changes b" in decision.waits["b"].reason
    (cluster / "values/kubernetes.yaml").unlink()
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_process_that_says_nothing(machine: Machine) -> None:
    """A process that was killed before its run began is begun again, by the same command, a minute later."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    machine.processes = dict.fromkeys(machine.processes, 0)
    wait = one.look()[0].waits["a"]
    assert "its process ended before it had begun a run" in wait.reason and wait.until is not None
    assert one.run(lambda *_: None)[0].done and machine.begun == {"a": 2, "b": 1, "c": 1}
    assert machine.commands[0] == machine.commands[1]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda campaign: (campaign.folder / "requests/1.json").write_text("{}"), "is not a valid request"),
        (lambda campaign: (campaign.folder / JOURNAL).write_bytes(b"{}\n"), "this line of the journal is not valid"),
    ],
)
def test_damaged_files(machine: Machine, spoil: Callable[[Campaign], object], message: str) -> None:
    """A request or a journal that isn't valid is an error that names the file."""
    campaign = begun(machine)
    campaign.ask(ClusterSkipped("a", "me", "x"), machine.clock)
    spoil(campaign)
    with pytest.raises(UsageError, match=message):
        campaign.state()
