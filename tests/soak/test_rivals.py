"""Two runs of one cluster that start at the same instant from two folders, repeatedly."""

from __future__ import annotations

import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

from testkit.command import running
from testkit.kills import TwoReleases, stop_now
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.engine.locks.cluster_lock import read_lease
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE

ROUNDS = 50
_LOSES_SECONDS = 60.0


def test_exactly_one_proceeds(cluster: LabCluster, tmp_path: Path) -> None:
    """Without a Lease and with a free one, one of two runs works, and the other ends with 6, names it and writes
    nothing; a second SIGTERM stops the first at once, and frees the lock."""
    two = TwoReleases(cluster, tmp_path)  # the runs find them unchanged
    # Gates take long enough for the other run to read the lock again while the first one runs.
    cluster.change_settings({"gates": {"consecutive": 100}})
    other = cluster.copy_to(tmp_path / "other")
    cluster.kube.delete(LEASES, NAME, NAMESPACE)
    won = [_winner(cluster, (cluster.folder, other)) for _ in range(ROUNDS)]
    two.remove()
    assert set(won) == {0, 1}, "it is never the same one"


def _winner(cluster: LabCluster, folders: tuple[Path, Path]) -> int:
    before = [_newest(folder) for folder in folders]
    with ExitStack() as stack:
        rivals = [stack.enter_context(running("-C", folder, "run", "--to", OLD, "--yes")) for folder in folders]
        until("one to be turned away", lambda: any(_over(each) for each in rivals), timeout_seconds=_LOSES_SECONDS)
        loser = next(index for index, each in enumerate(rivals) if _over(each))
        winner = 1 - loser
        output, _ = rivals[loser].communicate()
        assert rivals[loser].returncode == 6 and f"process {rivals[winner].pid}" in output, output
        until("the other to be at work", lambda: _newest(folders[winner]) > before[winner], timeout_seconds=60)
        assert not _over(rivals[winner])
        output = stop_now(rivals[winner], signal.SIGTERM)
        assert rivals[winner].returncode == 130, output
    assert _newest(folders[loser]) == before[loser]
    lease = read_lease(cluster.kube)
    assert lease is not None and lease.holder is None
    return winner


def _over(process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None


def _newest(folder: Path) -> str:
    """The run that began last; names begin with the time."""
    return max((path.name for path in (folder / "runs").glob("2*/")), default="")
