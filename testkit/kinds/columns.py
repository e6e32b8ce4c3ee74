"""The six columns, in an order in which each leaves the cluster as the next one needs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from testkit.adoption import static_pods, undo_adoption
from testkit.api_load import ApiLoad
from testkit.command import Ended
from testkit.kinds.catalogue import Kind
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.pushed_changes import BAD_FLAG, upgrade
from testkit.recovery import assert_recovered

__all__ = ["COLUMNS", "NEEDED", "PASSED", "REFUSED", "Cell", "whole_way"]

PASSED, REFUSED, FAILED = "passed", "refused", "failed"
_REFUSED = 3


@dataclass(frozen=True)
class Cell:
    """One column of one kind. `words`: the error of a refusal, or what failed. `requests` and `failed`: of clients
    beside it; 0 without clients.
    """

    result: str
    date: str
    seconds: float
    requests: int = 0
    failed: int = 0
    words: str = ""


@dataclass(frozen=True)
class _Refused(Exception):
    words: str


def whole_way(
    cluster: LabCluster, kind: Kind, *, adopted: bool = False, only: Collection[str] = ()
) -> Iterator[tuple[str, Cell]]:
    """Each column with its cell, as it ends; stops after one that didn't pass. `adopted`: the cluster is already.

    `only`: these columns, and those that they need: the cluster is adopted, and runs the target.
    """
    for name, column in COLUMNS.items():
        if (adopted and column is _adopt) or (only and name not in {*only, *NEEDED}):
            continue
        begun = time.monotonic()
        try:
            cell = column(cluster)
            for proof in kind.proofs:
                proof(cluster)
        except _Refused as refused:
            cell = Cell(REFUSED, "", 0, words=refused.words)
        except (AssertionError, TimeoutError) as error:
            cell = Cell(FAILED, "", 0, words=" ".join(str(error).split()))
        yield name, replace(cell, date=f"{datetime.now(UTC):%Y-%m-%d}", seconds=round(time.monotonic() - begun, 1))
        if cell.result != PASSED:
            return


def _adopt(cluster: LabCluster) -> Cell:
    """Beside clients. kubeadm's static pod may cut one kept write off as it ends."""
    before = static_pods(cluster)
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.upgrader("adopt", "--yes")
        seen = load.stop()
    if ended.exit_code == _REFUSED:
        assert static_pods(cluster) == before and cluster.releases() == {}, "it was refused, and changed something"
        raise _Refused(_error(ended))
    _ends_with(0, ended)
    assert seen.failed == seen.lost_writes <= 1, seen
    assert static_pods(cluster) == set()
    cluster.wait_healthy(OLD)
    return Cell(PASSED, "", 0, seen.requests, seen.failed)


def _bad_flag(cluster: LabCluster) -> Cell:
    """A run with a flag that kube-apiserver can't parse ends rolled back, and no client fails."""
    cluster.keep_files()
    cluster.change_values("kube-apiserver", {"extraArgs": {BAD_FLAG: "true"}})
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        assert BAD_FLAG in _ends_with(4, cluster.run(skip="trial.refused"))
        seen = load.stop()
    cluster.restore_files()
    assert seen.failed == 0, seen
    cluster.wait_healthy(OLD)
    return Cell(PASSED, "", 0, seen.requests, seen.failed)


def _run(cluster: LabCluster) -> Cell:
    """An upgrade of one minor, and no client fails."""
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        _ends_with(0, cluster.run())
        seen = load.stop()
    assert seen.failed == 0, seen
    cluster.wait_healthy(TARGET)
    return Cell(PASSED, "", 0, seen.requests, seen.failed)


def _power_cut(cluster: LabCluster) -> Cell:
    """The control plane comes back by itself, and its own pods take over again."""
    cluster.cut_power()
    cluster.wait_healthy(TARGET, timeout_seconds=240)
    cluster.wait_until_settled(TARGET)
    return Cell(PASSED, "", 0)


def _recover(cluster: LabCluster) -> Cell:
    """A bad change that no gate checked, a power cut during it, and `upgrader recover`."""
    good = cluster.manifests()
    upgrade(cluster)
    until("the new pod to crash", lambda: cluster.crashed(BAD_FLAG), timeout_seconds=120)
    cluster.crash_and_boot()
    _ends_with(0, cluster.upgrader("recover", "--yes"))
    assert_recovered(cluster, good, TARGET)
    return Cell(PASSED, "", 0)


def _undo(cluster: LabCluster) -> Cell:
    """The way back, at the version that runs now: kubeadm's static pods are Ready, and no client fails."""
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        undo_adoption(cluster)
        seen = load.stop()
    assert seen.failed == 0, seen
    assert set(cluster.versions().values()) == {TARGET}
    return Cell(PASSED, "", 0, seen.requests, seen.failed)


COLUMNS: Mapping[str, Callable[[LabCluster], Cell]] = {
    "adopt": _adopt,
    "bad flag": _bad_flag,
    "run": _run,
    "power cut": _power_cut,
    "recover": _recover,
    "undo": _undo,
}

NEEDED = ("adopt", "run")
"""The columns without which none of the others can be tried."""


def _ends_with(exit_code: int, ended: Ended) -> str:
    assert ended.exit_code == exit_code, ended
    return ended.stderr


def _error(ended: Ended) -> str:
    """The output of a refused command, from its error on."""
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.lower().startswith("error")), -1)
    return " ".join(lines[first:])
