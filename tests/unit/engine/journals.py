"""A journal that grows, and the places that it is copied to."""

from __future__ import annotations

from pathlib import Path

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from upgrader.engine.history.journal_in_secrets import ClusterReplicas
from upgrader.engine.history.journal_on_controllers import CONTROLLER_RUNS, ControllerReplicas
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.model.cluster import Host
from upgrader.model.event import Event, RunEnded, RunResumed, RunStarted
from upgrader.model.outcome import RunOutcome
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult

RUN = "20260101T000000-v1.37.1"
TARGET = KubernetesVersion(1, 37, 1)
OLDER = "20251231T000000-v1.36.3"
ONE, TWO = Host("controller-1", "10.0.0.11"), Host("controller-2", "10.0.0.12")
RESUMED = RunResumed(RUN, "bob@desk")
STARTED = RunStarted(RUN, RunKind.UPGRADE, ("a", "b"), f"runs/{RUN}", TARGET)


def journal_of(folder: Path, run: str, *events: Event) -> bytes:
    """The bytes of a run's journal, which is then in `folder/RUN`."""
    path = folder / run / JOURNAL
    path.parent.mkdir(parents=True)
    journal = Journal(path, FakeClock())
    for event in events:
        journal.emit(event)
    journal.close()
    return path.read_bytes()


def a_run(runs: Path, day: int, outcome: RunOutcome | None = "succeeded", kind: RunKind = RunKind.UPGRADE) -> str:
    """The folder of a run that ended so (None: it was killed); returns its name."""
    name = f"202601{day:02}T120000-{TARGET if kind is RunKind.UPGRADE else kind}"
    folder = runs / name
    folder.mkdir(parents=True)
    journal = Journal(folder / JOURNAL, FakeClock())
    journal.emit(RunStarted(name, kind, ("a",), str(folder), TARGET if kind is RunKind.UPGRADE else None))
    if outcome:
        journal.emit(RunEnded(name, outcome, 1.0))
    journal.close()
    return name


class Places:
    """A cluster and two controllers, in memory."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.hosts = FakeHosts()
        self.hosts.commands = {"sh": self._list, "install": CommandResult(0, "", ""), "rm": self._remove}
        self.cluster = ClusterReplicas(self.kube)
        self.controllers = tuple(ControllerReplicas(self.hosts, host) for host in (ONE, TWO))

    @property
    def all(self) -> tuple[ClusterReplicas | ControllerReplicas, ...]:
        return (self.cluster, *self.controllers)

    def on(self, host: Host, run: str = RUN) -> bytes:
        """What is on a controller's disk; nothing when there is no such file."""
        return self.hosts.files.get((host.name, f"{CONTROLLER_RUNS}/{run}/{JOURNAL}"), b"")

    def _list(self, host: Host, _command: object, _stdin: bytes) -> CommandResult:
        names = {path.split("/")[-2] for name, path in self.hosts.files if name == host.name}
        return CommandResult(0, "".join(f"{name}\n" for name in sorted(names)), "")

    def _remove(self, host: Host, command: object, _stdin: bytes) -> CommandResult:
        folder = command[-1]  # type: ignore[index]
        for key in [key for key in self.hosts.files if key[0] == host.name and key[1].startswith(f"{folder}/")]:
            del self.hosts.files[key]
        return CommandResult(0, "", "")
