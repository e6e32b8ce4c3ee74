"""`python -m bench.large.reading KUBECONFIG`: reads what a run reads, in a process of its own, and prints as JSON how
much memory that process has had until then.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from math import inf
from pathlib import Path

import upgrader
from bench.large.served import CONTROLLER, NEW_IMAGE
from testkit.fakes.clock import FakeClock
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.observe_cluster import kubelet_versions
from upgrader.engine.execution.cordoned_nodes import cordoned
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.critical_workloads import read_health_before
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.cluster import Cluster, Host
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.image_settings import ImageSettings
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.steps.images.pull_images import PullImagesStep
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.verify import VerifyStep

__all__ = ["main", "parts_of"]

_NEVER_IN_A_RUN = ("upgrader.lab", "upgrader.in_cluster", "upgrader.onhost", "upgrader.fleet", "upgrader.__main__")
_ROUNDS = 3
_PATIENCE_SECONDS = 300.0
"""For one request: a busy machine, on which all is played by one process, changes nothing in the memory."""
_SYSTEM = "kube-system"
_KUBE_PROXY = f"""
kind: DaemonSet
metadata: {{name: kube-proxy, namespace: {_SYSTEM}}}
spec: {{template: {{spec: {{containers: [{{name: main, image: 'IMAGE'}}]}}}}}}
"""
_INSTALLED = _KUBE_PROXY.replace("IMAGE", "registry.example/kube-proxy:v1.36.3")


def main() -> int:
    """Print the peak after each part, in MiB, by the part's name."""
    _import_all()
    peaks = {"its own modules": _peak_mib()}
    kube, clock = KubeAdapter(Path(sys.argv[1]), timeout_seconds=_PATIENCE_SECONDS), FakeClock()
    for name, part in parts_of(kube, clock).items():
        part()
        peaks[name] = _peak_mib()
    kube.close()
    print(json.dumps(peaks))
    return 0


def parts_of(kube: KubeAdapter, clock: FakeClock) -> Mapping[str, Callable[[], object]]:
    """What a run asks of the API in the order in which it does, each as the use case itself asks it."""
    cluster = Cluster(Path(), Path(), "", Path(), (Host(CONTROLLER, "127.0.0.1"),))
    reads = SharedReads(kube, clock, ReadMemory())
    return {
        "versions": lambda: (kubelet_versions(kube), cordoned(kube)),
        "images": lambda: _pull_images(kube, clock),
        "beside Helm": lambda: _beside_helm(reads, clock, cluster),
        "gates": lambda: _gates(reads, clock, cluster),
    }


def _import_all() -> None:
    """Every module that a run may import: a smaller process would be one that has not come to them yet."""
    for module in pkgutil.walk_packages(upgrader.__path__, "upgrader."):
        if not module.name.startswith(_NEVER_IN_A_RUN):
            import_module(module.name)


def _pull_images(kube: KubeAdapter, clock: FakeClock) -> None:
    planned = _KUBE_PROXY.replace("IMAGE", NEW_IMAGE)
    release = PlannedRelease(ReleaseSpec("kubernetes", _SYSTEM, Path("/c")), "upgrade", "", _INSTALLED, planned, ())
    plan = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), (release,))
    step = PullImagesStep.of(plan, kube, clock, ImageSettings())
    assert step is not None
    step.apply(lambda _: None)


def _beside_helm(reads: SharedReads, clock: FakeClock, cluster: Cluster) -> None:
    """A rollout of kube-proxy on all nodes, as it is watched while Helm waits for it."""
    catalog = GateCatalog(reads, clock, cluster, GatePolicy(), read_health_before(reads, cluster))
    watcher = watch_workloads(
        reads,
        _INSTALLED,
        clock=clock,
        namespace=_SYSTEM,
        absence=ApiAbsence(reads, clock, inf),
        glance=catalog.health.glance,
    )
    for _ in range(_ROUNDS):
        watcher()
        clock.sleep(20.0)


def _gates(reads: SharedReads, clock: FakeClock, cluster: Cluster) -> None:
    """Those of the step `kubernetes`, continuity with them."""
    catalog = GateCatalog(reads, clock, cluster, GatePolicy(), read_health_before(reads, cluster))
    continuity = Continuity(reads, clock, controllers=(CONTROLLER,), removed=(), policy=catalog.scaled)
    continuity.compare_with(continuity.take(lambda _: None, begun=False), clock.now())
    own = catalog.of_release("kubernetes", _INSTALLED, namespace=_SYSTEM, target=None)
    (step,) = continuity.around(Pipeline((PipelineStep(VerifyStep("kubernetes"), own, ()),))).steps
    for _ in range(_ROUNDS):
        for run in step.gates:
            run.gate.check()
        clock.sleep(20.0)


def _peak_mib() -> float:
    """Of this process (`VmHWM`)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    sys.exit(main())
