"""`python -m bench.large.upgrading KUBECONFIG`: upgrades all workers, in batches of a tenth of them, in a process of
its own, and prints as JSON what that has cost this process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from bench.large.served import CONTROLLER, NEW_KUBELET
from testkit.fakes.clock import FakeClock
from upgrader.adapters.kube import KubeAdapter
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.critical_workloads import read_health_before
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.gates.node_return import NodeReturn
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.model.cluster import Cluster, Host
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.node_settings import DrainPolicy, NodePool, NodeSource
from upgrader.model.version import KubernetesVersion
from upgrader.ports import PlaybookResult
from upgrader.steps.nodes.batch import Batch
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.detaching import Detaching
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.nodes.step import NodesStep
from upgrader.steps.step_document import NodeChange

__all__ = ["main"]

_PATIENCE_SECONDS = 300.0
_OLD, _NEW = KubernetesVersion.parse("v1.36.3"), KubernetesVersion.parse(NEW_KUBELET)


def main(arguments: Sequence[str]) -> int:
    """Print the workers, CPU seconds, and requests."""
    kube, clock, asked = KubeAdapter(Path(arguments[0]), timeout_seconds=_PATIENCE_SECONDS), FakeClock(), [0]
    plain = kube._client.send

    def send(request: Any) -> Any:
        asked[0] += 1
        return plain(request)

    kube._client.send = send  # type: ignore[method-assign]
    names = [node["metadata"]["name"] for node in kube.each(NODES) if node["metadata"]["name"] != CONTROLLER]
    step = _step(kube, clock, names)
    asked[0], notes = 0, list[str]()
    begun = time.process_time()
    step.apply(notes.append)
    cpu = time.process_time() - begun
    assert sum("uncordoned" in note for note in notes) == len(names), notes
    kube.close()
    print(json.dumps({"workers": len(names), "cpu_seconds": cpu, "requests": asked[0]}))
    return 0


def _step(kube: KubeAdapter, clock: FakeClock, names: list[str]) -> NodesStep:
    cluster = Cluster(Path(), Path(), "", Path(), (Host(CONTROLLER, "127.0.0.1"),))
    memory = ReadMemory()
    reads = SharedReads(kube, clock, memory)
    catalog = GateCatalog(reads, clock, cluster, GatePolicy(), read_health_before(reads, cluster))

    def gates() -> None:
        absence = ApiAbsence(reads, clock, inf)
        hold_all(
            "", catalog.of_cluster(), clock=clock, reporter=_Unheard(), absence=absence, asked=lambda: memory.asked
        )

    source, pool, watch = NodeSource("packages"), NodePool("workers", drain=DrainPolicy()), NodeReturn(kube)
    nodes, cordons = tuple(NodeChange(name, _OLD, _NEW) for name in names), Cordons(kube, clock)
    batch = Batch(
        cordons=cordons,
        detaching=Detaching(kube, clock, cordons, None, check=lambda: None),
        drain=Drain(kube, clock, pool.drain, frozenset({CONTROLLER}), watch.problem, check=lambda: None),
        playbooks=NodePlaybooks(_NoPlaybooks(), Path("/playbooks"), Path("/hosts.yml"), source, _NEW),
        watch=watch,
        log=str,
        clock=clock,
        ready_seconds=300.0,
    )
    at_once = max(1, len(names) // 10)
    return NodesStep(PlannedNodes(pool, nodes, _NEW, source, 300.0, at_once, Path("/playbooks")), batch, gates)


class _Unheard:
    """The gates' answers are for no one."""

    def emit(self, event: object) -> None:
        """Nothing."""


class _NoPlaybooks:
    """`ports.Playbooks`: Ansible has processes of its own, and the served kubelets are replaced by themselves."""

    def run(self, playbook: Path, **of: Any) -> PlaybookResult:
        """Nothing."""
        return PlaybookResult({}, {})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
