"""The cluster's lock around a command: released, however the command ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_node
from upgrader.app.backup import unless_locked
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import cluster_lock, own_name
from upgrader.engine.history.journal_replicas import LocalJournals
from upgrader.engine.history.run_discovery import DiscoveredRuns, find_runs
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.engine.locks.fence import Fence
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE
from upgrader.errors import ApiError, ApiUnavailable, Interrupted, StepFailed
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.model.cluster import Cluster, Host
from upgrader.model.event import RunStarted
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.run_kind import RunKind


@pytest.fixture
def session(tmp_path: Path) -> Any:
    """What the lock needs from a session."""
    clock, kube = FakeClock(), FakeKube()
    cluster = Cluster(tmp_path, Path(), "", tmp_path / "hosts.yml", (Host("controller-1", "10.0.0.1"),))
    return SimpleNamespace(
        tools=SimpleNamespace(kube=kube, clock=clock),
        builder=SimpleNamespace(gates=GateCatalog(kube, clock, cluster, GatePolicy())),
        settings=SimpleNamespace(folder=tmp_path),
        fence=Fence(FakeHosts(), (), clock),
        find_runs=lambda: DiscoveredRuns((), ()),
    )


def held(session: Any) -> bool:
    """Whether the lock is held."""
    lease = session.tools.kube.get(LEASES, NAME, NAMESPACE)
    return bool(lease and lease["spec"].get("holderIdentity"))


def fail() -> None:
    """End as a failed step does."""
    raise StepFailed("no")


ENDS: dict[str, tuple[Callable[[], object], type[BaseException]]] = {
    "failure": (fail, StepFailed),
    "Ctrl-C": (lambda: os.kill(os.getpid(), signal.SIGINT), KeyboardInterrupt),
    "SIGTERM": (lambda: os.kill(os.getpid(), signal.SIGTERM), KeyboardInterrupt),
    "closed terminal": (lambda: os.kill(os.getpid(), signal.SIGHUP), KeyboardInterrupt),
}


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Ctrl-C works, also where the tests run in the background of a shell, which ignores it for them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize(("end", "raised"), ENDS.values(), ids=ENDS)
def test_lock_is_given_back(session: Any, end: Callable[[], object], raised: type[BaseException]) -> None:
    """Whichever way the command ends, the lock is free afterwards, and signals do what they did before."""
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)]

    def command() -> None:
        with cluster_lock(session, FrontEnd(), take_over=False):
            assert held(session)
            end()

    with pytest.raises(raised):
        command()
    assert not held(session)
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)] == before


def test_heartbeats_are_watched_from_the_start(session: Any) -> None:
    """A kubelet that has renewed its Lease since the command began lives, for the first gate that asks."""
    kube, clock, health = session.tools.kube, session.tools.clock, session.builder.gates.health
    add_node(kube, "controller-1", renewed="2026-02-01T00:00:00Z")
    with cluster_lock(session, FrontEnd(), take_over=False):
        clock.sleep(12)
        add_node(kube, "controller-1", renewed="2026-02-01T00:00:10Z")
        assert health.controllers() == {"controller-1": ""}


def test_lock_counts_on_from_runs_that_are_known_elsewhere(session: Any, tmp_path: Path) -> None:
    """A folder without runs, as in CI, asks the cluster and the controllers: the Lease may have been restored from an
    older backup, or deleted. A folder with runs knows.
    """
    run = "20260101T000000-v1.36.3"
    began = RunStarted(run, RunKind.UPGRADE, ("a",), "", sequence=40)
    (tmp_path / "elsewhere" / run).mkdir(parents=True)
    journal = Journal(tmp_path / "elsewhere" / run / JOURNAL, FakeClock())
    journal.emit(began)
    journal.close()
    session.find_runs = lambda: find_runs((LocalJournals(tmp_path / "elsewhere"),))
    with cluster_lock(session, FrontEnd(), take_over=False) as found:
        assert found.lock.sequence == 41
    (tmp_path / "elsewhere").rename(tmp_path / "runs")
    session.find_runs = None
    session.tools.kube.delete(LEASES, NAME, NAMESPACE)
    with cluster_lock(session, FrontEnd(), take_over=False) as found:
        assert found.lock.sequence == 41


def test_lock_that_cannot_be_released_is_reported(session: Any) -> None:
    """With the API unreachable at the end, the operator learns how long others will wait."""
    notices: list[str] = []
    with cluster_lock(session, FrontEnd(notify=notices.append), take_over=False):
        session.tools.kube.unavailable = True
    waited, ended = notices
    assert waited.startswith("waiting up to 5 s for the cluster's lock to be released: ")
    assert "60 s" in ended


def test_lock_that_was_taken_meanwhile_ends_the_run_before_its_next_change(session: Any) -> None:
    """A machine that slept asks for its lock before it changes anything; one that has it still goes on."""
    with cluster_lock(session, FrontEnd(), take_over=False) as mine:
        mine.confirm()
        mine.stop.check(safe=False)
        with cluster_lock(session, FrontEnd(), take_over=True):
            mine.confirm()
            with pytest.raises(Interrupted, match="lock was taken over by"):
                mine.stop.check(safe=False)


def test_signals_are_the_callers_in_another_thread(session: Any) -> None:
    """A server runs use cases in threads, where no signal handler can be set: the lock works there too."""

    def work() -> bool:
        with cluster_lock(session, FrontEnd(), take_over=False):
            return held(session)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result()
    assert not held(session)


@pytest.mark.parametrize(("status", "goes_on"), [(0, True), (500, True), (503, True), (401, False), (403, False)])
def test_backup_without_the_lock(session: Any, status: int, goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the API is away, or its etcd is; but an API that refuses the lock has one that another process may hold."""
    error = ApiError("no") if status else ApiUnavailable("no answer")
    error.status = status
    monkeypatch.setattr(session.tools.kube, "get", lambda *_, **__: (_ for _ in ()).throw(error))
    notes: list[str] = []
    front_end = FrontEnd(notify=notes.append)
    if goes_on:
        with unless_locked(session, front_end):
            assert "Continuing without the cluster's lock" in notes[0]
        return
    with pytest.raises(ApiError), unless_locked(session, front_end):
        pytest.fail("it must not begin")


def test_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that runs as any number has no line in passwd: `approve` is by that number there, no traceback."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 987_654)
    assert own_name().startswith("uid-987654@")
