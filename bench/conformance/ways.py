"""The three ways to test: after an upgrade, while it is at work, and set up before and verified after it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.conformance.results import Result
from bench.conformance.stand_ins import load_balancers, volumes
from bench.conformance.suite import Started, Suite
from testkit.command import must
from testkit.lab_cluster import LabCluster, until
from upgrader.errors import Blocked
from upgrader.lab.existing_labs import find
from upgrader.ports import Kind

__all__ = ["Change", "Disturbed", "around", "during", "oldest_kubelet", "undisturbed", "upgrade_specs", "upgraded"]

_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_NODES = Kind("v1", "nodes", namespaced=False)
_NAMESPACE_OF_A_SPEC = "e2e-framework"
"""The label of the namespaces that specs make for themselves."""
_BEGIN_SECONDS, _SET_UP_SECONDS, _RUN_SECONDS = 600.0, 1500.0, 1800.0
_TRIES = 5
_UPGRADE_TESTS = "Upgrade tests "
_VOLUMES = 6


@dataclass(frozen=True)
class Change:
    """`upgrader run` or `rollback` (`what`): from when to when it was at work, and how it ended."""

    what: str
    begun: datetime
    ended: datetime
    exit_code: int
    refused: int = 0
    """How often a check had refused it before, for something that a spec had in the cluster at that moment."""

    def as_json(self) -> dict[str, Any]:
        """As the record has it."""
        seconds = round((self.ended - self.begun).total_seconds(), 1)
        return {"what": self.what, "seconds": seconds, "exit_code": self.exit_code, "refused": self.refused}


@dataclass(frozen=True)
class Disturbed:
    """The results, and what changed the cluster meanwhile."""

    results: tuple[Result, ...]
    changes: tuple[Change, ...]


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
    """Run the specs; once the first is at work, `upgrader run` and `rollback` in turn, until the specs have ended."""
    changes: list[Change] = []
    with suite.start(suite.programs.e2e, names, "during") as started:
        until(
            "the first spec to be at work",
            lambda: _or_ended(started, lambda: bool(cluster.kube.list(_NAMESPACES, labels=_NAMESPACE_OF_A_SPEC))),
            timeout_seconds=_BEGIN_SECONDS,
        )
        while not started.ended and not any(change.exit_code for change in changes):
            words = ("rollback", "--yes") if len(changes) % 2 else ("run", "--to", target, "--yes")
            changes.append(_change(cluster, *words))
        return Disturbed(started.results(), tuple(changes))


def around(cluster: LabCluster, suite: Suite, names: Sequence[str], old: str, target: str) -> Disturbed:
    """Set all upgrade tests up, run `upgrader run` while they look, and let them verify."""
    with _set_up(cluster, suite, names, (old, target), "around") as (started, done):
        run = _change(cluster, "run", "--to", target, "--yes")
        done.touch()
        return Disturbed(started.results(), (run,))


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


def _change(cluster: LabCluster, *words: str) -> Change:
    """The command: again where a check refuses it, which changes nothing. Specs have broken webhooks for seconds."""
    for refused in range(_TRIES):
        begun = datetime.now(UTC)
        ended = cluster.upgrader(*words, timeout_seconds=_RUN_SECONDS)
        done = Change(words[0], begun, datetime.now(UTC), ended.exit_code, refused)
        print(f"`upgrader {words[0]}` ended with {ended.exit_code} after {ended.seconds:.0f} s", file=sys.stderr)
        if ended.exit_code:
            print(ended, file=sys.stderr, flush=True)
        if ended.exit_code != Blocked.exit_code:
            break
    return done


def _or_ended(started: Started, holds: Callable[[], bool]) -> bool:
    """Whether it holds; RuntimeError, with what the tests said, if they have ended before it did."""
    if started.ended:
        started.results()
        raise RuntimeError(f"the tests ended before anything was disturbed: {started.log}")
    return holds()
