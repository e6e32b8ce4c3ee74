"""`python -m bench.fleet`: what a campaign of 1,000 clusters costs its coordinator and the management cluster.

The Jobs are real objects of a real API server with an etcd. What would run them is played: a player writes the status
of Jobs and pods as their controller and kubelets do, and each cluster's journal; a run takes seconds. Neither answers
of clusters nor the time that a run takes is measured. The coordinator is a process of its own, as `fleet run` is.
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

from bench.large.audit import Request, read_requests
from bench.places import RESULTS
from testkit.api_servers import api_servers
from testkit.fleet_folder import server_of, write_kubeconfig
from testkit.lab_cluster import OLD, TARGET
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.kube import KubeAdapter
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.fleet.campaigns import begin, fleet_files
from upgrader.fleet.cluster_checks import Questions
from upgrader.fleet.clusters import Answer
from upgrader.fleet.coordinator import IDLE_SECONDS, LOOK_SECONDS, Coordinator, goes_on
from upgrader.fleet.events import CampaignStarted, ClusterInputs
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.inputs import inputs_of, own_pins
from upgrader.fleet.job_objects import JOBS
from upgrader.fleet.job_process import pins_text
from upgrader.fleet.job_watch import JobWatch
from upgrader.fleet.jobs_executor import JobsExecutor
from upgrader.fleet.unread_journals import Unread
from upgrader.gates.kubernetes_kinds import NAMESPACES, PODS, SECRETS
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, KubeObject

__all__ = ["Goal", "figures_of", "main", "table"]

_COORDINATOR, _RUN = "coordinator", f"20260101T000001-{TARGET}"
_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)
_IMAGE = f"registry.example/upgrader-runner@sha256:{64 * '0'}"
_THREADS = 8
_LARGE_BYTES, _USUAL_BYTES = 1 << 20, 20 << 10
"""Of the files in the canary's folder, and in each other one, which no compression makes smaller."""
_TIME = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Goal:
    """A figure of the results, and what it may be at most."""

    figure: str
    what: str
    most: float
    unit: str


GOALS = (
    Goal("requests_each", "requests to the management cluster, for each cluster", 20, ""),
    Goal("rss_mib", "memory of the coordinator at most (RSS)", 200, " MiB"),
    Goal("look_seconds", "one look, 95th percentile", 2, " s"),
    Goal("largest_kib", "largest object", 256, " KiB"),
)


def main() -> int:
    """0 when the goals are kept."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--run-seconds", type=float, default=10.0, help="how long a run is played")
    parser.add_argument("--concurrency", default="5%", help="how many run at a time")
    parser.add_argument("--minutes", type=float, default=60.0, help="end after this time, with what is done by then")
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.json", help="file of the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="f-") as folder:
        fleet = Path(folder) / "fleet"
        names = _write_fleet(fleet, options.clusters, options.concurrency)
        with _measured(Path(folder), fleet, names, options.run_seconds, options.minutes * 60) as figures:
            # Before the servers end, which may fail.
            options.out.write_text(json.dumps(figures, indent=1) + "\n")
            print(table(figures), end="", flush=True)
    kept = all(figures[goal.figure] <= goal.most for goal in GOALS)
    return 0 if kept and figures["succeeded"] == options.clusters else 1


def figures_of(
    clusters: int, requests: Iterable[Request], looks: Mapping[str, Any], largest: int, seconds: float
) -> dict[str, Any]:
    """The results of a campaign: its requests, what its coordinator says of itself, and the largest object's bytes."""
    asked = Counter(f"{each.verb} {each.resource}" for each in requests if each.user == _COORDINATOR)
    times, cpu = sorted(looks["seconds"]), sorted(looks["cpu"])
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1),
        "clusters": clusters,
        "succeeded": looks["succeeded"],
        "minutes": round(seconds / 60, 1),
        "requests_each": round(asked.total() / max(1, asked["create jobs"]), 1),
        "requests": dict(sorted(asked.items())),
        "rss_mib": round(looks["rss_kib"] / 1024),
        "cpu_seconds": round(looks["cpu_seconds"]),
        "looks": len(times),
        "look_seconds": round(times[len(times) * 95 // 100], 2),
        "look_cpu_seconds": round(cpu[len(cpu) * 95 // 100], 2),
        "look_cpu_seconds_longest": round(cpu[-1], 2),
        "look_seconds_median": round(statistics.median(times), 2),
        "look_seconds_longest": round(times[-1], 2),
        "largest_kib": round(largest / 1024),
    }


def table(figures: Mapping[str, Any]) -> str:
    """The results as a table of a page."""
    rows = [f"| {figures['clusters']:,} clusters | measured | goal |", "|---|---|---|"]
    rows += [f"| {goal.what} | {figures[goal.figure]:g}{goal.unit} | {goal.most:g}{goal.unit} |" for goal in GOALS]
    return "\n".join(rows) + "\n"


@contextmanager
def _measured(
    folder: Path, fleet: Path, names: list[str], run_seconds: float, most_seconds: float
) -> Iterator[dict[str, Any]]:
    """The results; the servers end with the block."""
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    policy["omitStages"] = ["RequestReceived", "ResponseStarted"]
    (folder / "p").write_text(json.dumps(policy))
    flags = (f"--audit-policy-file={folder / 'p'}", f"--audit-log-path={folder / 'a'}", "--audit-log-maxsize=4000")
    with api_servers(folder, _COORDINATOR) as servers, servers.serving(OLD, *flags) as kube:
        _grant(kube)
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda name: kube.create(NAMESPACES, _named(f"fleet-{name}")), names))
        player = Player(KubeAdapter(servers.kubeconfig()), folder / "ended", run_seconds)
        begun = time.monotonic()
        player.begin()
        mine, other = multiprocessing.get_context("spawn").Pipe(duplex=False)
        arguments = (fleet, servers.kubeconfig(_COORDINATOR), folder / "ended", most_seconds, other)
        process = multiprocessing.get_context("spawn").Process(target=_coordinate, args=arguments)
        process.start()
        other.close()
        looks = mine.recv()
        process.join()
        seconds = time.monotonic() - begun
        time.sleep(2)  # by then, the last requests are in the log
        requests = read_requests((folder / "a").read_text().splitlines())
        player.over = True
        yield figures_of(len(names), requests, looks, player.largest, seconds)


def _write_fleet(fleet: Path, clusters: int, concurrency: str) -> list[str]:
    names = [f"cluster-{number:04}" for number in range(clusters)]
    entries = []
    for number, name in enumerate(names):
        folder = fleet / "clusters" / name
        folder.mkdir(parents=True)
        (folder / "upgrader.yaml").write_text(f"kubernetesVersion: {OLD}\n")
        (folder / "values.bin").write_bytes(os.urandom(_USUAL_BYTES if number else _LARGE_BYTES))
        write_kubeconfig(folder)
        ring = "production" if number else "canary"
        entries.append({"name": name, "uid": f"uid-{name}", "labels": {"ring": ring}})
    (fleet / "fleet-inventory.yaml").write_text(json.dumps({"clusters": entries}))
    stages: list[dict[str, Any]] = [
        {"name": ring, "selector": {"matchLabels": {"ring": ring}}} for ring in ("canary", "production")
    ]
    stages[1]["maxConcurrency"] = concurrency
    spec = {"target": TARGET, "stages": stages, "jobs": {"image": _IMAGE}}
    campaign = {"apiVersion": "upgrader.io/v1alpha1", "kind": "FleetRun", "spec": spec}
    (fleet / "fleet.yaml").write_text(json.dumps(campaign))
    (fleet / "runs").mkdir()
    return names


def _named(name: str, kind: str = "Namespace") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def _grant(kube: KubeAdapter) -> None:
    """All rights: which ones it needs is the chart's tests' matter."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": _COORDINATOR},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": _COORDINATOR}],
    }
    kube.create(_BINDINGS, binding)


@dataclass
class Player:
    """Has each Job run in a pod, for some seconds, and end well."""

    kube: KubeAdapter
    ended: Path
    """A folder with a file for each cluster whose run has ended: the cluster's journal can be read then."""
    run_seconds: float
    largest: int = 0
    """Bytes of the largest object that was there, as JSON."""
    over: bool = False
    _ends: list[tuple[float, str, str]] = field(default_factory=list)

    def begin(self) -> None:
        """Play from now on, in threads."""
        self.ended.mkdir()
        _, version = self.kube.listed(JOBS, keep=dict)
        for work, arguments in ((self._begin_all, (version,)), (self._end_all, ())):
            Thread(target=work, args=arguments, daemon=True).start()

    def _begin_all(self, version: str) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            for event in self.kube.changes(JOBS, version=version, timeout_seconds=86400, silent_seconds=86400):
                if event["type"] == "ADDED":
                    pool.submit(self._runs, event["object"])

    def _runs(self, job: KubeObject) -> None:
        name, place, template = job["metadata"]["name"], job["metadata"]["namespace"], job["spec"]["template"]
        metadata = {"name": f"{name}-x", "labels": template["metadata"]["labels"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        objects = [job, self.kube.create(PODS, pod, place), *self.kube.list(SECRETS, place)]
        self._pod_is(name, place, "Running", {"running": {"startedAt": _TIME}})
        self.largest = max(self.largest, *(len(json.dumps(each, separators=(",", ":"))) for each in objects))
        heapq.heappush(self._ends, (time.monotonic() + self.run_seconds, name, place))

    def _end_all(self) -> None:
        while not self.over:
            while self._ends and self._ends[0][0] <= time.monotonic():
                _, name, place = heapq.heappop(self._ends)
                self._ends_well(name, place)
            time.sleep(0.2)

    def _ends_well(self, name: str, place: str) -> None:
        (self.ended / place.removeprefix("fleet-")).touch()
        line = {"format_version": "1.0", "time": _TIME, "type": "CommandEnded"}
        said = json.dumps({**line, "data": {"exit_code": 0, "run": _RUN, "error": None}})
        self._pod_is(name, place, "Succeeded", {"terminated": {"exitCode": 0, "message": said, "finishedAt": _TIME}})
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": _TIME} for each in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": _TIME, "completionTime": _TIME, "succeeded": 1, "ready": 0, "conditions": conditions}
        self.kube.patch(JOBS, name, {"status": status}, place, subresource="status")

    def _pod_is(self, name: str, place: str, phase: str, state: Mapping[str, Any]) -> None:
        container = {"name": "run", "image": _IMAGE, "imageID": "", "ready": False, "restartCount": 0, "state": state}
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        self.kube.patch(PODS, f"{name}-x", status, place, subresource="status")


def _coordinate(folder: Path, hub: Path, ended: Path, most_seconds: float, results: Connection) -> None:
    """A campaign to its end, as `fleet run` goes through it; sends what it cost."""
    clock, kube = SystemClock(), KubeAdapter(hub)
    fleet = read_fleet(folder, clock.now())
    assert fleet.jobs is not None
    inputs = tuple(
        ClusterInputs(each.name, str(inputs_of(folder, each.folder, frozenset(), {}))) for each in fleet.clusters
    )
    target = KubernetesVersion.release(TARGET)
    started = CampaignStarted(f"20260101T000000-fleet-{TARGET}", target, own_pins(), inputs, "me", executor="jobs")
    campaign, journal = begin(folder, started, fleet_files(folder), clock)

    def ask(kubeconfig: Path) -> Answer:
        return Answer(f"uid-{server_of(kubeconfig)}", target)

    def fetch(cluster: Path, _: Path) -> Unread:
        run = cluster / "runs" / _RUN
        if (ended / cluster.name).exists() and not run.exists():
            run.mkdir(parents=True)
            written = Journal(run / JOURNAL, clock)
            written.emit(RunStarted(_RUN, RunKind.UPGRADE, (), f"runs/{_RUN}", target=target, campaign=campaign.name))
            written.emit(RunEnded(_RUN, "succeeded", 1.0))
            written.close()
        return Unread()

    executor = JobsExecutor(kube, JobWatch(kube, clock), fleet.jobs, fleet, pins_text(), clock, fetch)
    questions = Questions(folder, frozenset(), ask, {}, clock, fetch)
    coordinator = Coordinator(folder, fleet, campaign, journal, executor, clock, questions, own_pins)
    seconds, cpu, ends = list[float](), list[float](), time.monotonic() + most_seconds
    while True:
        begun, used_before = time.monotonic(), time.process_time()
        decision, state = coordinator.look()
        seconds.append(time.monotonic() - begun)
        cpu.append(time.process_time() - used_before)
        phases = Counter(each.phase for each in state.clusters.values())
        print(f"look {len(seconds)}: {seconds[-1]:.1f} s, {cpu[-1]:.1f} s of CPU, {dict(phases)}", file=sys.stderr)
        if not goes_on(decision, state) or time.monotonic() > ends:
            break
        time.sleep(LOOK_SECONDS if phases["running"] else IDLE_SECONDS)
    used = resource.getrusage(resource.RUSAGE_SELF)
    results.send(
        {
            "seconds": seconds,
            "cpu": cpu,
            "succeeded": phases["succeeded"],
            "rss_kib": used.ru_maxrss,
            "cpu_seconds": used.ru_utime + used.ru_stime,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
