"""A campaign's coordinator on a machine that is played: processes, clusters and a clock that a test decides about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import server_of, write_fleet
from upgrader.engine.journal import journal_file, record
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.engine.journal.record import Record
from upgrader.errors import ApiUnavailable, UsageError
from upgrader.fleet.campaigns import Campaign, begin, fleet_files
from upgrader.fleet.cluster_checks import Questions
from upgrader.fleet.clusters import Answer, Answered
from upgrader.fleet.coordinator import LOOK_SECONDS, Coordinator
from upgrader.fleet.events import EVENTS, CampaignStarted, ChosenPod, ClusterInputs, Pins
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.inputs import Inputs, inputs_of
from upgrader.fleet.model import FleetCluster
from upgrader.fleet.outcomes import CommandEnd, Sign
from upgrader.fleet.parallel_inquiry import Inquiry
from upgrader.fleet.soak_gates import GateAnswer
from upgrader.fleet.soak_restart import Restart
from upgrader.fleet.state import CampaignState
from upgrader.fleet.unread_journals import Unread
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

__all__ = [
    "EMIT",
    "FLEET",
    "PINS",
    "TARGET",
    "Killed",
    "Machine",
    "begun",
    "coordinator",
    "inputs",
    "killed_at",
    "lines_read",
    "look_until",
    "phases",
]

TARGET = KubernetesVersion.release("v1.37.1")
PINS = Pins("1", "c", "p")
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


@contextmanager
def killed_at(moment: int, *, after: bool) -> Iterator[None]:
    """Kill the process of these lines before or `after` it writes that line of a journal, if it writes so many."""
    lines = count()

    def killing(journal: Journal, event: object) -> None:
        last = next(lines) == moment
        if last and not after:
            raise Killed
        EMIT(journal, event)
        if last:
            raise Killed

    with patch.object(Journal, "emit", killing), suppress(Killed):
        yield


@contextmanager
def lines_read() -> Iterator[list[int]]:
    """The numbers of the lines that are read of campaigns' journals meanwhile; not of clusters' runs."""
    found, checked = list[int](), record.checked

    def noted(line: bytes, number: int, checksum: str, events: Mapping[str, type[Any]]) -> tuple[Record, str]:
        found.extend([number] * (events is EVENTS))
        return checked(line, number, checksum, events)

    with patch.object(journal_file, "checked", noted):
        yield found


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
        self.pins = PINS
        self.kind = RunKind.UPGRADE
        """Of all runs."""
        self.unnamed: set[str] = set()
        """Clusters whose next command ends before it has named its run."""
        self.unreadable: set[str] = set()
        """Clusters of whose attempts nothing can be read."""
        self.unwritable: set[str] = set()
        self.written: datetime | None = None
        """When the processes have written something last."""
        self.signs = 0
        """How often that was asked."""
        self.at_ask: dict[str, Callable[[], object]] = {}
        """What happens while a cluster is asked."""
        self.at_prepare: dict[str, Callable[[], object]] = {}
        """What happens while what a cluster's run needs is read."""
        self.at_start: dict[str, Callable[[], object]] = {}
        """What happens while a cluster's run is started."""
        self.twice: set[str] = set()
        """Clusters of which a second process was begun."""
        self.answered: Answered | Exception = Answered("1", 0)
        """How many requests each API server has answered, or why it doesn't say."""
        self.elsewhere: dict[str, str] = {}
        """Cluster → a run of which only the cluster has the journal."""
        self.elsewhere_ends = 0
        """Its exit code."""
        self.elsewhere_of = ""
        """The campaign that has begun it."""
        self.gate = GateAnswer()
        """What the gates of each cluster say."""
        self.pods: dict[str, str] = {}
        """Of a cluster's pod that is evicted, the UID."""
        self.evicted: list[tuple[str, str]] = []
        """Cluster and UID, of each eviction that had an effect."""
        self.at_eviction: Callable[[], object] = lambda: None
        self.no_pod = ""
        """Why no pod of any cluster can be restarted."""
        self.at_gate: Callable[[], object] = lambda: None
        """What happens while a gate is asked."""
        self.at_settings: Callable[[], object] = lambda: None
        """What happens before the first one is."""
        self.gate_asked = "errors"
        """Which one that is."""
        self.gates_asked: list[tuple[Path, str, Sequence[str], float]] = []
        self.at_work = ""
        """Why a process may be changing each cluster."""
        self.unread = Unread()
        """Which journals of all clusters can't be read."""

    def ask(self, kubeconfig: Path) -> Answer:
        name = server_of(kubeconfig)
        self.at_ask.pop(name, lambda: None)()
        if name in self.silent:
            raise ApiUnavailable(f"{name} doesn't answer")
        return self.answers[name]

    def fetch(self, folder: Path, _: Path) -> Unread:
        """Bring a cluster's journals home, as where runs are Jobs."""
        run = "" if self.unread.place else self.elsewhere.pop(folder.name, "")
        if run:
            self._ran(folder.name, run, self.elsewhere_ends, self.elsewhere_of)
        return self.unread

    def requests(self, _: Path) -> Answered:
        if isinstance(self.answered, Exception):
            raise self.answered
        return self.answered

    def gates(
        self, folder: Path, files: str, names: Sequence[str], seconds: float, about: Callable[[GateAnswer], object]
    ) -> GateAnswer:
        self.at_settings()
        about(GateAnswer(self.gate_asked, deadline_seconds=self.gate.deadline_seconds))
        self.at_gate()
        self.gates_asked.append((folder, files, names, seconds))
        return self.gate

    def restart(self, kubeconfig: Path, cluster: FleetCluster, chosen: ChosenPod | None, *, may_begin: bool) -> Restart:
        assert may_begin, "there is no window"
        name = server_of(kubeconfig)
        assert name == cluster.name
        if self.no_pod:
            return self.no_pod
        uid = self.pods.setdefault(name, "old")
        if chosen is None:
            return ChosenPod("kube-scheduler", f"kube-scheduler-{uid}", uid)
        if chosen.uid == uid:
            self.evicted.append((name, uid))
            self.pods[name] = "new"
            self.at_eviction()
            return "it was evicted"
        return ""

    # upgrader.fleet.coordinator.Executor

    def prepare(self, attempt: Path, arguments: Sequence[str]) -> Callable[[], None]:
        self.at_prepare.pop(attempt.parent.name, lambda: None)()
        return partial(self.start, attempt, arguments)

    def start(self, attempt: Path, arguments: Sequence[str]) -> None:
        name = attempt.parent.name
        self.at_start.get(name, lambda: None)()
        if name in self.unwritable:
            raise UsageError(f"{attempt} can't be written: No space left on device")
        if attempt in self.processes or any(self.processes.get(each, 0) for each in attempt.parent.glob("*")):
            self.twice.add(name)
        attempt.mkdir(parents=True)
        self.commands.append(arguments)
        self.begun[name] += 1
        self.processes[attempt] = 2

    def running(self, attempt: Path) -> bool:
        assert not self.twice, "no attempt, and no cluster, has two processes"
        if attempt.parent.name in self.unreadable:
            raise UsageError(f"{attempt}/lock can't be read: Input/output error")
        if self.processes.get(attempt, 0) > 0:
            self.processes[attempt] -= 1
            if not self.processes[attempt]:
                self._ended(attempt)
        return self.processes.get(attempt, 0) > 0

    def sign(self, attempt: Path) -> Sign:
        self.signs += 1
        return Sign("process 7", self.written)

    def end(self, attempt: Path) -> CommandEnd | None:
        return self.ends.get(attempt)

    def _ended(self, attempt: Path) -> None:
        name = attempt.parent.name
        codes = self.exit_codes.get(name)
        code = codes.pop(0) if codes else 0
        run = f"20260101T{len(self.commands):06}-v1.37.1"
        if name in self.unnamed:
            self.unnamed.remove(name)
            self.ends[attempt] = CommandEnd(code, "", "", f"{name} failed", time=self.clock.now())
            return
        if code in (0, 130):
            self._ran(name, run, code, attempt.parents[2].name)
        error = f"{name} failed" if code else ""
        self.ends[attempt] = CommandEnd(code, run, "", error, time=self.clock.now())

    def _ran(self, name: str, run: str, code: int, campaign: str = "") -> None:
        folder = self.folder / "clusters" / name / "runs" / run
        folder.mkdir(parents=True)
        journal = Journal(folder / JOURNAL, self.clock)
        EMIT(journal, RunStarted(run, self.kind, (), f"runs/{run}", target=TARGET, campaign=campaign))
        if code == 0:
            EMIT(journal, RunEnded(run, "succeeded", 1.0))
        journal.close()


def inputs(machine: Machine, name: str) -> Inputs:
    fleet = read_fleet(machine.folder, machine.clock.now())
    return inputs_of(machine.folder, machine.folder / "clusters" / name, fleet.commands, {})


def begun(machine: Machine, *, changes: str = "") -> Campaign:
    fleet = read_fleet(machine.folder, machine.clock.now())
    approved = tuple(ClusterInputs(each.name, str(inputs(machine, each.name)), changes) for each in fleet.clusters)
    (machine.folder / "runs").mkdir()
    name = "20260101T000000-fleet-v1.37.1"
    campaign, journal = begin(
        machine.folder, CampaignStarted(name, TARGET, PINS, approved, "me"), fleet_files(machine.folder), machine.clock
    )
    journal.close()
    return campaign


def coordinator(machine: Machine, campaign: Campaign) -> Coordinator:
    fleet = read_fleet(machine.folder, machine.clock.now(), begun=campaign.folder)
    journal = campaign.reopen(machine.clock)
    questions = Questions(
        machine.folder,
        fleet.commands,
        machine.ask,
        {},
        machine.clock,
        machine.fetch,
        machine.requests,
        lambda *_: machine.at_work,
        machine.gates,
        machine.restart,
    )
    return Coordinator(
        machine.folder,
        fleet,
        campaign,
        journal,
        machine,
        machine.clock,
        questions,
        lambda: machine.pins,
        inquiry=Inquiry(at_once=1),  # so that it is certain which cluster answers first
        starting=Inquiry(at_once=1),
    )


def phases(campaign: Campaign) -> dict[str, str]:
    return {name: each.phase for name, each in campaign.state().clusters.items()}


def look_until(one: Coordinator, reached: Callable[[CampaignState], bool]) -> CampaignState:
    for _ in range(100):
        _, state = one.look()
        if reached(state):
            return state
        one.clock.sleep(LOOK_SECONDS)
    raise AssertionError("it was never reached")
