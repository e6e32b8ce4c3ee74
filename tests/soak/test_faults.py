"""Faults between upgrader and the API during a run: it succeeds or rolls back, and reports which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from testkit.faults.proxy import Fault, FaultProxy, Upstream
from testkit.faults.scenario import Disturbance, Moment, Stage
from testkit.lab_cluster import LabCluster
from upgrader.engine.history.journal_in_secrets import ClusterReplicas
from upgrader.engine.history.journal_on_controllers import CONTROLLER_RUNS
from upgrader.engine.journal.journal_file import JOURNAL


@dataclass(frozen=True)
class Faulty:
    """A lab whose runs use a proxy."""

    stage: Stage
    proxy: FaultProxy


@pytest.fixture
def faulty(cluster: LabCluster, tmp_path: Path) -> Iterator[Faulty]:
    upstream = Upstream.of(cluster.folder / "kubeconfig", tmp_path)
    with FaultProxy(upstream, tmp_path) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig", like=cluster.folder / "kubeconfig")
        yield Faulty(Stage(cluster, tmp_path, kubeconfig), proxy)
        cluster.helm("uninstall", "faults", "--namespace", "default")


def test_faults_in_the_middle_of_a_run(faulty: Faulty) -> None:
    """No run hangs, and each cluster is as the exit code says. `make reliability` has every fault at each moment."""
    for fault, moment in ((Fault.REFUSED, Moment.HELM), (Fault.BROKEN, Moment.UNDO)):
        begin, end = partial(faulty.proxy.set, fault), partial(faulty.proxy.set, None)
        outcome = faulty.stage.play(Disturbance(fault, begin, end), moment)
        assert not outcome.trouble, f"{fault} at '{moment}': {outcome.trouble}\n{outcome.output}"
        assert faulty.proxy.hits or fault is Fault.REFUSED, f"{fault} at '{moment}' was never met"
    _journal_is_elsewhere_too(faulty.stage.cluster)


def _journal_is_elsewhere_too(cluster: LabCluster) -> None:
    """The cluster and the controller have the same journal of the newest run as the folder, readable only by root."""
    run = cluster.runs()[-1]
    here = (cluster.folder / "runs" / run / JOURNAL).read_bytes()
    assert b"UndoStarted" in here
    in_cluster = ClusterReplicas(cluster.kube).read(run)
    file = f"{CONTROLLER_RUNS}/{run}/{JOURNAL}"
    assert in_cluster is not None and b"RunEnded" in in_cluster and here.startswith(in_cluster)
    assert cluster.on_controller("cat", file).encode() == in_cluster
    assert cluster.on_controller("stat", "-c", "%U %a", file, f"{CONTROLLER_RUNS}/{run}").split() == [
        *("root", "600"),
        *("root", "700"),
    ]
