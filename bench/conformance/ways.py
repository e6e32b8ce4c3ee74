"""The three ways to test: after an upgrade, while it is at work, and set up before and verified after it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.conformance.results import Result
from bench.conformance.stand_ins import load_balancers, volumes
from bench.conformance.suite import Started, Suite
from testkit.command import must
from testkit.lab_cluster import LabCluster, until
from upgrader.lab.registry import find
from upgrader.ports import Kind

__all__ = ["Disturbed", "around", "during", "oldest_kubelet", "undisturbed", "upgrade_specs", "upgraded"]

_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_NODES = Kind("v1", "nodes", namespaced=False)
_NAMESPACE_OF_A_SPEC = "e2e-framework"
"""The label of the namespaces that specs make for themselves."""
_BEGIN_SECONDS, _SET_UP_SECONDS, _RUN_SECONDS = 600.0, 1500.0, 1800.0
_UPGRADE_TESTS = "Upgrade tests "
_VOLUMES = 6


@dataclass(frozen=True)
class Disturbed:
    """The results, and from when to when `upgrader run` was at work, and how it ended."""

    results: tuple[Result, ...]
    begun: datetime
    ended: datetime
    exit_code: int


def oldest_kubelet(cluster: LabCluster) -> str:
    """The oldest version of a kubelet in the cluster."""
    found = [node["status"]["nodeInfo"]["kubeletVersion"] for node in cluster.kube.list(_NODES)]
    return str(min(found, key=lambda version: [int(part) for part in version[1:].split(".")]))


def upgraded(cluster: LabCluster, target: str) -> None:
    """Bring the cluster to that version, unless it is there."""
    if set(cluster.versions().values()) != {target}:
        must(cluster.run(target))
        cluster.wait_healthy(target)


def during(cluster: LabCluster, suite: Suite, names: Sequence[str], target: str) -> Disturbed:
    """Run the specs, and `upgrader run` once the first of them is at work."""
    with suite.start(suite.programs.e2e, names, "during") as started:
        until(
            "the first spec to be at work",
            lambda: _or_ended(started, lambda: bool(cluster.kube.list(_NAMESPACES, labels=_NAMESPACE_OF_A_SPEC))),
            timeout_seconds=_BEGIN_SECONDS,
        )
        begun, code, ended = _disturb(cluster, target)
        return Disturbed(started.results(), begun, ended, code)


def around(cluster: LabCluster, suite: Suite, names: Sequence[str], old: str, target: str) -> Disturbed:
    """Set all upgrade tests up, run `upgrader run` while they look, and let them verify."""
    with _set_up(cluster, suite, names, (old, target), "around") as (started, done):
        begun, code, ended = _disturb(cluster, target)
        done.touch()
        return Disturbed(started.results(), begun, ended, code)


def undisturbed(cluster: LabCluster, suite: Suite, names: Sequence[str], version: str) -> tuple[Result, ...]:
    """The same upgrade tests on a cluster to which nothing is done."""
    with _set_up(cluster, suite, names, (version, version), "undisturbed") as (started, done):
        done.touch()
        return started.results()


@contextmanager
def _set_up(
    cluster: LabCluster, suite: Suite, names: Sequence[str], versions: tuple[str, str], what: str
) -> Iterator[tuple[Started, Path]]:
    """Upgrade tests that wait, and the file that tells them to verify."""
    placement = find(cluster.name)
    assert placement is not None
    workers = [node for node in placement.nodes if node.role == "worker"]
    with tempfile.TemporaryDirectory() as signals, ExitStack() as held:
        held.enter_context(volumes(cluster.kube, [node.name for node in workers], _VOLUMES))
        held.enter_context(load_balancers(cluster.kube, workers[0].address))
        environment = {"UPGRADE_SIGNALS": signals, "UPGRADE_FROM": versions[0], "UPGRADE_TO": versions[1]}
        # Each test waits in a process of its own.
        several = replace(suite, processes=len(names), environment=environment)
        started = held.enter_context(several.start(suite.programs.upgrades, names, what))
        until(
            f"{len(names)} upgrade tests to be set up",
            lambda: _or_ended(started, lambda: len([*Path(signals).glob("*.ready")]) == len(names)),
            timeout_seconds=_SET_UP_SECONDS,
        )
        yield started, Path(signals) / "done"


def upgrade_specs(suite: Suite) -> tuple[str, ...]:
    """The names of upstream's upgrade tests, as specs of ours."""
    command = [str(suite.programs.upgrades), "--list-tests"]
    listed = subprocess.run(command, cwd=suite.programs.folder, capture_output=True, text=True, check=True).stdout
    names = (line.strip() for line in listed.splitlines())
    return tuple(sorted(name[name.index(_UPGRADE_TESTS) :] for name in names if _UPGRADE_TESTS in name))


def _disturb(cluster: LabCluster, target: str) -> tuple[datetime, int, datetime]:
    begun, clock = datetime.now(UTC), time.monotonic()
    ended = cluster.upgrader("run", "--to", target, "--yes", timeout_seconds=_RUN_SECONDS)
    seconds = time.monotonic() - clock
    print(f"`upgrader run` ended with {ended.exit_code} after {seconds:.0f} s", file=sys.stderr, flush=True)
    if ended.exit_code:
        print(ended, file=sys.stderr, flush=True)
    return begun, ended.exit_code, datetime.now(UTC)


def _or_ended(started: Started, holds: Callable[[], bool]) -> bool:
    """Whether it holds; RuntimeError, with what the tests said, if they have ended before it did."""
    if started.ended:
        started.results()
        raise RuntimeError(f"the tests ended before anything was disturbed: {started.log}")
    return holds()
