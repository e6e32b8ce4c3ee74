"""Power cuts at random moments of an upgrade in which every release rolls, the pod-checkpointer too."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.recovery.measure import Result, Site
from testkit.command import running
from testkit.lab_cluster import OLD, TARGET, until

__all__ = ["BAD", "cut", "good", "moments", "phase_of", "start_over"]

_RUN_SECONDS = 900.0


def moments(seed: int, count: int, span: float) -> list[float]:
    """`count` random moments in `span` seconds: one in each of as many equal parts, so that every phase has one."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    return [span * (part + dice.random()) / count for part in range(count)]


def good() -> Mapping[str, Any]:
    """A change that makes new pods of the same content."""
    return {"podAnnotations": {"bench": f"{time.time():.0f}"}}


BAD: Mapping[str, Mapping[str, Any]] = {
    "image that does not exist": {"image": {"tag": "does-not-exist"}},
    "flag that it refuses": {"logLevel": "info", "interval": 2, "keep": 101},
    "crash at start": {"containerdFolder": "/etc/hostname"},
}
"""Changes of the pod-checkpointer's values with which it can't run."""


def cut(
    site: Site, seconds: float, change: Mapping[str, Any], target: str = TARGET, *, to_the_end: bool = True
) -> Result:
    """Change the pod-checkpointer's values, begin a run, cut the power `seconds` later.

    `to_the_end`: wait for the end of the run and a healthy cluster; otherwise the run is killed as soon as the API
    answers again.
    """
    site.cluster.change_values("pod-checkpointer", change)
    before = site.cluster.runs()
    with running("-C", site.cluster.folder, "run", "--to", target, "--yes") as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        begun = site.cluster.runs() != before
        phase = phase_of(site.cluster.journal() if begun else [])

        def finish() -> str:
            process.communicate(timeout=_RUN_SECONDS)
            return f"ended with {process.returncode} at {site.cluster.versions()['kube-apiserver']}"

        name = f"{seconds:.0f} s: {phase}"
        if to_the_end:
            return site.power_cut(name, "checkpoint", finish=finish)
        return site.power_cut(name, "checkpoint", settle=False)


def start_over(site: Site) -> None:
    """Restore the cluster at the old version, unless it is healthy there."""
    site.cluster.restore_files()
    try:
        until("a healthy cluster", lambda: not site.cluster.troubles(OLD), timeout_seconds=60)
    except TimeoutError:
        site.cluster.restore()


def phase_of(journal: Sequence[Mapping[str, Any]]) -> str:
    """What a run did when it wrote its last line: the step, and whether Helm or the gates ran."""
    phase = "before the first step"
    for line in journal:
        match line["type"]:
            case "StepStarted":
                phase = f"{line['data']['step']}, Helm"
            case "StepApplied":
                phase = f"{line['data']['step']}, gates"
            case "StepEnded":
                phase = f"after {line['data']['step']}"
            case "UndoStarted":
                phase = f"undoing {line['data']['step']}"
            case "RunEnded":
                phase = "after its end"
    return phase
