"""Runs on a real cluster that a test kills at a chosen moment, and that other processes resume or roll back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.command import Ended, running, upgrader
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.processes import children
from testkit.waiting import stretched
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.ports import Kind

__all__ = ["MOMENTS", "ONE", "TWO", "Moment", "TwoReleases", "kill_at", "stop_now"]

Runs = Callable[..., AbstractContextManager[subprocess.Popen[str]]]
"""The function that starts a run, like `testkit.command.running`."""

ONE, TWO = "one", "two"

_SECRETS, _DEPLOYMENTS = Kind("v1", "secrets"), Kind("apps/v1", "deployments")
_CHART = "{apiVersion: v2, name: small, version: 0.1.0}\n"
_WORKLOAD = f"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{{{ .Release.Name }}}}
  annotations:
    served-by: {{{{ .Capabilities.KubeVersion.Version }}}}
    cluster: {{{{ (lookup "v1" "Namespace" "" "kube-system").metadata.uid | default "unknown" }}}}
spec:
  minReadySeconds: 3
  selector: {{matchLabels: {{app: {{{{ .Release.Name }}}}}}}}
  template:
    metadata:
      labels: {{app: {{{{ .Release.Name }}}}}}
      annotations: {{turn: "{{{{ .Values.turn }}}}"}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{{operator: Exists}}]
      {{{{- with .Values.node }}}}
      nodeSelector: {{kubernetes.io/hostname: {{{{ . }}}}}}
      {{{{- end }}}}
      containers:
        - {{name: main, image: "registry.k8s.io/pause:{IMAGE_VERSIONS["pause"]}", imagePullPolicy: IfNotPresent}}
"""
_HOOK = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-before
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
data: {turn: "{{ .Values.turn }}"}
"""
"""Not in the output of `helm get manifest`, but in that of `helm template`; the API's objects lack it, too."""


@dataclass(frozen=True)
class Moment:
    """When a run is killed: once its journal has this record of this step, and Helm has written this status."""

    record: str
    step: str = ""
    helm: str = ""
    """The Helm status that the step's release must have; "" for any."""
    fails: bool = False
    """Whether the last step of the run fails, so that the run rolls back."""

    def __str__(self) -> str:
        return " ".join(filter(None, [self.record, self.step, self.helm]))

    def reached(self, records: list[Mapping[str, Any]]) -> bool:
        """Whether the journal has the record."""
        return any(record["type"] == self.record and record["data"].get("step", "") == self.step for record in records)


MOMENTS = (
    Moment("StepStarted", ONE),
    Moment("StepStarted", ONE, "pending-upgrade"),
    Moment("StepApplied", ONE),
    Moment("StepEnded", ONE),
    Moment("StepStarted", TWO),
    Moment("StepStarted", TWO, "pending-upgrade"),
    Moment("StepApplied", TWO),
    Moment("StepEnded", TWO, fails=True),
    Moment("UndoStarted", TWO, fails=True),
    Moment("UndoStarted", TWO, "pending-rollback", fails=True),
    Moment("UndoEnded", TWO, fails=True),
    Moment("UndoStarted", ONE, "pending-rollback", fails=True),
)


class TwoReleases:
    """Two small releases in a cluster, so that runs are short; each run changes both."""

    def __init__(self, cluster: LabCluster, scratch: Path) -> None:
        self.cluster = cluster
        self._scratch = scratch
        self._chart = scratch / "small"
        self._turn = 0
        self._copies = 0
        (self._chart / "templates").mkdir(parents=True)
        (self._chart / "Chart.yaml").write_text(_CHART)
        (self._chart / "values.yaml").write_text('turn: "0"\nnode: ""\n')
        (self._chart / "templates" / "deployment.yaml").write_text(_WORKLOAD)
        (self._chart / "templates" / "hook.yaml").write_text(_HOOK)
        self._configure(fails=False)
        ended = cluster.run(OLD)
        assert ended.exit_code == 0, ended

    @property
    def chart(self) -> Path:
        """The chart of both."""
        return self._chart

    @property
    def turns(self) -> tuple[str, str]:
        """The current turn of each release, by its Deployment."""
        found = [self.cluster.kube.get(_DEPLOYMENTS, name, "default") or {} for name in (ONE, TWO)]
        one, two = (item["spec"]["template"]["metadata"]["annotations"]["turn"] for item in found)
        return one, two

    @property
    def settled(self) -> bool:
        """Whether the newest revision of both is deployed."""
        listed = json.loads(self.cluster.helm("list", "--output", "json", "--namespace", "default"))
        return {item["name"]: item["status"] for item in listed} == {ONE: "deployed", TWO: "deployed"}

    def revisions(self) -> tuple[int, ...]:
        """The newest revision of each."""
        listed = json.loads(self.cluster.helm("list", "--output", "json", "--namespace", "default"))
        return tuple(int(item["revision"]) for item in sorted(listed, key=lambda item: str(item["name"])))

    def change(self, *, fails: bool = False) -> tuple[str, str]:
        """Configure the next change of both; with `fails`, the second's gate never passes. Returns old, new turn."""
        before, self._turn = str(self._turn), self._turn + 1
        self._configure(fails=fails)
        return before, str(self._turn)

    def change_what_never_rolls_out(self) -> tuple[str, str]:
        """Configure a change whose first release waits for a node that doesn't exist. Returns old, new turn."""
        turns = self.change()
        self.cluster.change_values(ONE, {"node": "nowhere"})
        return turns

    @contextmanager
    def run_until(self, moment: Moment, begin: Runs = running) -> Iterator[subprocess.Popen[str]]:
        """A run that has reached that moment; `begin` starts it, and ends it when the context ends."""
        before = set(self.cluster.runs())
        with begin("-C", self.cluster.folder, "run", "--to", OLD, "--new", "--yes") as process:
            until(str(moment), lambda: self._there(moment, process, before), timeout_seconds=180, interval_seconds=0.02)
            yield process

    def kill(self, moment: Moment, *, helm_too: bool = False) -> None:
        """Start a run and SIGKILL it at that moment, with its Helm or without."""
        with self.run_until(moment) as process:
            helms = children(process.pid, "helm") if helm_too else []
            process.kill()
            for pid in helms:
                os.kill(pid, signal.SIGKILL)

    def from_another_machine(self, *arguments: str) -> Ended:
        """Run a command as from another machine: a copy of the folder's files without its runs, and an empty home."""
        self._copies += 1
        folder = self._scratch / f"copy-{self._copies}"
        home = self._scratch / f"home-{self._copies}"
        home.mkdir()
        folder.mkdir()
        for name in ("upgrader.yaml", "hosts.yml", "kubeconfig", "values", "ssh"):
            source = self.cluster.folder / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)
        return upgrader("-C", folder, *arguments, environment={"HOME": str(home)}, timeout_seconds=600)

    def remove(self) -> None:
        """Leave the cluster as it was."""
        for name in (ONE, TWO):
            self.cluster.helm("uninstall", name, "--namespace", "default", "--ignore-not-found")

    def _there(self, moment: Moment, process: subprocess.Popen[str], before: set[str]) -> bool:
        for name in set(self.cluster.runs()) - before:
            path = self.cluster.folder / "runs" / name / "journal.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            if moment.reached([json.loads(line) for line in lines if line.endswith("}")]):
                return not moment.helm or self._helm_is(moment)
        if process.poll() is not None:
            output, _ = process.communicate()
            raise AssertionError(f"the run ended before '{moment}': {output}")
        return False

    def _helm_is(self, moment: Moment) -> bool:
        found = self.cluster.kube.list(_SECRETS, "default", labels=f"owner=helm,name={moment.step}")
        return any(item["metadata"]["labels"].get("status") == moment.helm for item in found)

    def _configure(self, *, fails: bool) -> None:
        never = [{"deployment": "default/never", "deadline": "3s"}] if fails else []
        release = {"chart": str(self._chart), "namespace": "default"}
        pipeline = [{"release": ONE, **release}, {"release": TWO, **release, "gates": never}]
        settings = {"pipeline": pipeline, "helm": {"timeout": "60s"}, "availability": {"requestsPerSecond": 0}}
        self.cluster.change_settings(settings)
        for name in (ONE, TWO):
            self.cluster.change_values(name, {"turn": str(self._turn), "node": ""})


def stop_now(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Signal a run twice, the second time after it has reported the first; returns its output after that."""
    process.send_signal(number)
    assert process.stdout is not None
    for line in process.stdout:
        if "Stopping after the current step" in line:
            break
    process.send_signal(number)
    return process.communicate(timeout=stretched(30))[0]


def kill_at(cluster: LabCluster, words: str, *arguments: str) -> None:
    """Start `upgrader ARGUMENTS` for a cluster, and kill it as soon as it says this; fails where it never does."""
    with running("-C", cluster.folder, *arguments) as run:
        assert run.stdout is not None
        output = []
        for line in run.stdout:
            output.append(line)
            if words in line:
                return
        raise AssertionError(f"`upgrader {' '.join(arguments)}` ended without '{words}':\n{''.join(output)}")
