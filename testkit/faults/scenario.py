"""One fault at one moment of one run, and the result of that run."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

from testkit.command import running
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.waiting import stretched
from upgrader.gates.api_absence import api_problem
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.ports import Kind

__all__ = ["RELEASE", "Disturbance", "Moment", "Outcome", "Records", "Scene", "Stage"]

RELEASE = "faults"
FAULT_SECONDS = 15.0
"""Longer than any request's timeout, shorter than the API may be unreachable before it is recovered over SSH."""

At = TypeVar("At", bound=str)

Records = Sequence[Mapping[str, Any]]
"""The records that a run's journal has so far."""

_SECRETS = Kind("v1", "secrets")
_LIMIT_SECONDS = 420.0
"""A run that takes longer hangs: its own deadlines are shorter in total."""

_CHART = """apiVersion: v2
name: faults
version: 0.1.0
"""
_WORKLOAD = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: faults
spec:
  selector: {matchLabels: {app: faults}}
  template:
    metadata:
      labels: {app: faults}
      annotations: {turn: "{{ .Values.turn }}"}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers:
        - name: main
          image: registry.k8s.io/pause:%s
          imagePullPolicy: IfNotPresent
"""


class Moment(StrEnum):
    """When a fault begins."""

    BEFORE = "before the run"
    BEGIN = "a step begins"
    HELM = "Helm at work"
    GATES = "gates"
    UNDO = "rollback"


@dataclass(frozen=True)
class Disturbance:
    """A fault: how to begin it, and how to end it."""

    name: str
    begin: Callable[[], object]
    end: Callable[[], object]
    seconds: float = FAULT_SECONDS
    """How long it lasts at most: it also ends with the run."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run with a fault, and of the `upgrader resume` after it, if one was needed."""

    fault: str
    moment: str
    """When the fault began: a `Moment`, or the step that ran."""
    exit_code: int
    seconds: float
    output: str
    """What it printed."""
    turn: str
    """Which change the cluster has now, by its objects; "" if unknown."""
    expected: Mapping[int, str]
    """Exit code → the change that the cluster must have then."""
    resumed: int | None = None
    """The exit code of `upgrader resume`, if the run left something to do."""

    @property
    def trouble(self) -> str:
        """How the run broke its promises; "" if it kept them."""
        if self.exit_code == -1:
            return f"it was still running after {_LIMIT_SECONDS:.0f} s"
        last = self.exit_code if self.resumed is None else self.resumed
        if self.exit_code not in (0, 4, 5, 3):
            return f"exit code {self.exit_code}"
        if last not in self.expected:
            return f"nothing could be done after exit code {self.exit_code}: resume ended with {last}"
        if self.turn != self.expected[last]:
            return f"exit code {last}, but the cluster has turn {self.turn!r}, not {self.expected[last]!r}"
        return ""

    @property
    def words(self) -> str:
        """The run's error message in one line; "" without an error."""
        _, found, rest = self.output.partition("Error: ")
        return " ".join(rest.partition("Remedy:")[0].split())[:400] if found else ""


class Scene(ABC, Generic[At]):
    """A lab for runs with faults; subclasses define what a run changes."""

    def __init__(self, cluster: LabCluster) -> None:
        self.cluster = cluster

    @abstractmethod
    def change(self, at: At) -> tuple[str, str]:
        """Configure another change; returns the cluster's change now, and the one after a successful run."""

    @abstractmethod
    def now(self) -> str:
        """Which change the cluster has; "" if unknown."""

    @abstractmethod
    def reached(self, at: At, records: Records) -> bool:
        """Whether a run has reached the point at which the fault begins."""

    def play(self, disturbance: Disturbance, at: At) -> Outcome:
        """Run with the fault from that point on for a while; then resume if the run left something to do."""
        before, after = self.change(at)
        outcome = self.run(disturbance, at)
        until("the API", lambda: not api_problem(self.cluster.kube), timeout_seconds=240)
        outcome = replace(outcome, expected={0: after, 4: before, 3: before})
        if "the run's outcome: succeeded" in outcome.output:
            # Only its report could not be written: `resume` answers that there is nothing to resume.
            outcome = replace(outcome, expected={**outcome.expected, 2: after})
        if outcome.exit_code == 5 and at == Moment.BEFORE:
            # It had not begun: there is nothing to resume, and nothing may have changed.
            outcome = replace(outcome, expected={5: before})
        elif outcome.exit_code == 5:
            outcome = replace(outcome, resumed=self.cluster.upgrader("resume", "--yes").exit_code)
        return replace(outcome, turn=self.now())

    def run(self, disturbance: Disturbance | None = None, at: At | None = None) -> Outcome:
        """One complete run; a fault begins at that point, or before the run if `at` is that moment."""
        runs = set(self.cluster.runs())
        begun = time.monotonic()
        if disturbance and at == Moment.BEFORE:
            disturbance.begin()
        with running("-C", self.cluster.folder, "run", "--to", OLD, "--new", "--yes") as process:
            if disturbance and at is not None:
                if at != Moment.BEFORE:
                    self._await(at, process, runs)
                    disturbance.begin()
                try:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(disturbance.seconds)
                finally:
                    disturbance.end()
            try:
                output, _ = process.communicate(timeout=stretched(_LIMIT_SECONDS))
                code = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
                code = -1
        name = disturbance.name if disturbance else ""
        output = output.replace(f"{self.cluster.folder}/", "")
        return Outcome(name, at or "", code, time.monotonic() - begun, output, "", {})

    def helm_at_work(self, release: str, namespace: str) -> bool:
        """Whether Helm is in the middle of upgrading that release."""
        found = self.cluster.kube.list(_SECRETS, namespace, labels=f"owner=helm,name={release}")
        return any(item["metadata"]["labels"].get("status") == "pending-upgrade" for item in found)

    def _await(self, at: At, process: subprocess.Popen[str], runs: set[str]) -> None:
        """Wait until the new run reaches that point."""

        def there() -> bool:
            if process.poll() is not None:
                output, _ = process.communicate()
                raise AssertionError(f"the run ended before '{at}': {output}")
            for name in set(self.cluster.runs()) - runs:
                path = self.cluster.folder / "runs" / name / "journal.jsonl"
                lines = path.read_text().splitlines() if path.exists() else []
                if self.reached(at, [json.loads(line) for line in lines if line.endswith("}")]):
                    return True
            return False

        until(f"'{at}'", there, timeout_seconds=300, interval_seconds=0.05)


class Stage(Scene[Moment]):
    """Each run changes one small release, so that it is short."""

    def __init__(self, cluster: LabCluster, scratch: Path, kubeconfig: Path | None = None) -> None:
        """The runs use `kubeconfig`, if given, instead of the cluster's own."""
        super().__init__(cluster)
        self._chart = scratch / "chart"
        (self._chart / "templates").mkdir(parents=True)
        (self._chart / "Chart.yaml").write_text(_CHART)
        (self._chart / "values.yaml").write_text('turn: "0"\n')
        (self._chart / "templates" / "deployment.yaml").write_text(_WORKLOAD % IMAGE_VERSIONS["pause"])
        self._settings: dict[str, Any] = {
            "availability": {"requestsPerSecond": 0},  # its gate would fail all of these runs
            "helm": {"timeout": "60s"},
        }
        if kubeconfig is not None:
            self._settings["cluster"] = {"kubeconfig": str(kubeconfig)}
        self._turn = int(self.now() or 0)
        self._configure(never=False)
        if not self.now():
            ended = self.run()
            if ended.exit_code:
                raise AssertionError(f"the release can't be installed: {ended.output}")

    def change(self, at: Moment) -> tuple[str, str]:
        before = self.now()  # a change that was rolled back has used up its turn
        self._turn += 1
        self._configure(never=at is Moment.UNDO)
        return before, before if at is Moment.UNDO else str(self._turn)

    def now(self) -> str:
        found = self.cluster.kube.get(Kind("apps/v1", "deployments"), RELEASE, "default") or {}
        annotations = found.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
        return str(annotations.get("turn", ""))

    def reached(self, at: Moment, records: Records) -> bool:
        wanted = {Moment.GATES: "StepApplied", Moment.UNDO: "UndoStarted"}.get(at, "StepStarted")
        if any(record["type"] == wanted and record["data"]["step"] == RELEASE for record in records):
            return at is not Moment.HELM or self.helm_at_work(RELEASE, "default")
        return False

    def _configure(self, *, never: bool) -> None:
        gate = [{"deployment": "default/never", "deadline": "3s"}] if never else []
        release = {"release": RELEASE, "chart": str(self._chart), "namespace": "default", "gates": gate}
        self.cluster.change_settings({**self._settings, "pipeline": [release]})
        self.cluster.change_values(RELEASE, {"turn": str(self._turn)})
