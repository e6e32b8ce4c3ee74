"""Real clusters for tests: an adopted lab with the queries and commands that tests need."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from testkit.command import REPOSITORY, Ended, skewed_clock, upgrader
from testkit.versions import COMPONENTS, running_versions
from testkit.waiting import stretched, until, waiting
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.lab.lifecycle import Lab
from upgrader.model.outcome import VerdictKind
from upgrader.model.release import without_revision
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Kind

__all__ = ["OLD", "RELEASES", "TARGET", "LabCluster", "lent_cluster", "make_cluster", "until"]

OLD, TARGET = "v1.36.3", "v1.37.1"
RELEASES = ("pod-checkpointer", "kube-apiserver", "kubernetes")
_HELM = REPOSITORY / ".venv" / "bin" / "helm"
_DAEMONSETS = Kind("apps/v1", "daemonsets")
_PODS = Kind("v1", "pods")
_SECRETS = Kind("v1", "secrets")
_SNAPSHOT = "adopted"


@dataclass(frozen=True)
class LabCluster:
    """A lab with one controller whose control plane is adopted.

    `home` contains `.lab/NAME`; `kept` holds saved copies of the cluster folder's files.
    """

    name: str
    home: Path
    kept: Path
    clock_skew_seconds: float = 0.0
    """How much the clock of the `upgrader` commands is ahead of the nodes'."""
    version: str = OLD
    """The version at which it was adopted."""
    components: tuple[str, ...] = COMPONENTS
    """Those whose versions count."""

    @property
    def folder(self) -> Path:
        """The cluster folder."""
        return self.home / ".lab" / self.name

    @cached_property
    def kube(self) -> KubeAdapter:
        """The cluster's API."""
        return KubeAdapter(self.folder / "kubeconfig")

    def upgrader(self, *arguments: str, timeout_seconds: float = 600.0) -> Ended:
        """Run `upgrader -C FOLDER ARGUMENTS`."""
        environment = skewed_clock(self.clock_skew_seconds)
        return upgrader("-C", self.folder, *arguments, timeout_seconds=timeout_seconds, environment=environment)

    def run(self, target: str = TARGET, *, skip: str = "") -> Ended:
        """Run `upgrader run --to TARGET --new --yes`, with `--skip` for the finding `skip`."""
        skipping = ("--skip", skip, "--reason", "a test") if skip else ()
        return self.upgrader("run", "--to", target, "--new", "--yes", *skipping)

    def lab(self, *arguments: str) -> None:
        """Run `upgrader lab ARGUMENTS --name NAME`; it must succeed."""
        _must(upgrader("-C", self.home, "lab", *arguments, "--name", self.name))

    def on_controller(self, *command: str) -> str:
        """Standard output of a command on the controller; one word is a script, several are a program and its
        arguments.

        Uses the lab's own key, not the command line, which takes seconds to start: loops call this.
        """
        line = command[0] if len(command) == 1 else shlex.join(command)
        with waiting("the controller's answer"):
            done = subprocess.run(
                [*self._machines.ssh("controller-1"), line],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=stretched(900),
            )
        if done.returncode:
            raise AssertionError(f"{line}: exit code {done.returncode}: {done.stderr}\n{done.stdout}")
        return done.stdout

    @property
    def _machines(self) -> Lab:
        return Lab.find(self.name)

    def versions(self) -> Mapping[str, str]:
        """Component → the version that runs."""
        found = running_versions(self.kube)
        return {name: found[name] for name in self.components}

    def releases(self) -> Mapping[str, Mapping[str, str]]:
        """Release → its newest revision: `revision`, `status`, and the `uid` of Helm's record of it.

        Reads the labels of Helm's records, not Helm, which reads and unpacks each of them: loops call this.
        """
        newest: dict[str, Mapping[str, str]] = {}
        for record in self.kube.each(_SECRETS, "kube-system", labels="owner=helm", metadata_only=True):
            labels = record["metadata"]["labels"]
            found = {"revision": labels["version"], "status": labels["status"], "uid": record["metadata"]["uid"]}
            before = newest.get(labels["name"])
            if before is None or int(before["revision"]) < int(found["revision"]):
                newest[labels["name"]] = found
        return newest

    def helm(self, *arguments: str, timeout_seconds: float = 60.0) -> str:
        """Standard output of `helm ARGUMENTS` in kube-system; raises ApiError when it fails or times out."""
        command = [str(_HELM), "--kubeconfig", str(self.folder / "kubeconfig"), "-n", "kube-system", *arguments]
        try:
            with waiting(f"helm {arguments[0]}"):
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=stretched(timeout_seconds)
                )
        except subprocess.TimeoutExpired:
            raise ApiError(f"helm {' '.join(arguments)} took longer than {timeout_seconds:.0f} s") from None
        if done.returncode:
            raise ApiError(f"helm {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def manifests(self) -> Mapping[str, str]:
        """Release → the manifest that Helm deployed, without its revision."""
        return {release: without_revision(self.helm("get", "manifest", release)) for release in RELEASES}

    def report(self) -> Mapping[str, Any]:
        """`report.json` of the newest run."""
        newest = max(self._run_folders(), key=lambda run: run.stat().st_mtime)
        report: Mapping[str, Any] = json.loads((newest / "report.json").read_text())
        return report

    def page(self) -> str:
        """`report.html` of the newest run."""
        newest = max(self._run_folders(), key=lambda run: run.stat().st_mtime)
        return (newest / "report.html").read_text()

    def journal(self) -> list[Mapping[str, Any]]:
        """`journal.jsonl` of the newest run; empty as long as that has written nothing."""
        newest = max(self._run_folders(), key=lambda run: run.stat().st_mtime)
        written = newest / "journal.jsonl"
        return [json.loads(line) for line in written.read_text().splitlines()] if written.is_file() else []

    def runs(self) -> list[str]:
        """The names of all runs so far."""
        return sorted(run.name for run in self._run_folders())

    def _run_folders(self) -> list[Path]:
        """Without those that are being removed, which have other names."""
        return [run for run in (self.folder / "runs").glob("*/") if not run.name.startswith(".")]

    def change_values(self, release: str, changes: Mapping[str, Any]) -> None:
        """Merge `changes` into `values/RELEASE.yaml`; lists and other values that aren't mappings are replaced."""
        file = self.folder / "values" / f"{release}.yaml"
        values = yaml.safe_load(file.read_text()) if file.exists() else {}
        file.write_text(yaml.safe_dump(_merged(values or {}, changes), sort_keys=False))

    def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Set top-level keys of `upgrader.yaml`."""
        file = self.folder / "upgrader.yaml"
        file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **changes}, sort_keys=False))

    def save(self) -> None:
        """Save the whole cluster for `restore`; it reboots."""
        with waiting("save"):
            self._machines.save(_SNAPSHOT)
            self.wait_after_boot()

    def restore(self) -> None:
        """Restore the whole cluster as it was saved: healthy and at the old version."""
        with waiting("restore"):
            self._machines.restore(_SNAPSHOT)
            self.wait_after_boot()

    def copy_to(self, folder: Path) -> Path:
        """The cluster folder as another machine has it, without its runs."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("runs", "*.img", "machines"))
        return folder

    def findings(self) -> Mapping[str, Mapping[str, Any]]:
        """ID → a finding of `upgrader check` against a run to the old version; one of each kind."""
        ended = self.upgrader("check", "--to", OLD, "-o", "json")
        return {item["id"]: item for item in json.loads(ended.stdout)["findings"]}

    def keep_files(self) -> None:
        """Save the cluster folder's files for `restore_files`."""
        for source in ("upgrader.yaml", "hosts.yml", "values"):
            _copy(self.folder / source, self.kept / source)

    def restore_files(self) -> None:
        """Restore the saved files."""
        for source in ("upgrader.yaml", "hosts.yml", "values"):
            _copy(self.kept / source, self.folder / source)

    def troubles(self, version: str) -> list[str]:
        """Why this cluster is not healthy at `version`, one line each; empty if it is."""
        self.kube.list(_DAEMONSETS, "kube-system")  # an API server that doesn't serve apps/v1 doesn't count
        found = [f"{name} is at {is_at}" for name, is_at in self.versions().items() if is_at != version]
        releases = self.releases()
        for name in RELEASES:
            status = releases.get(name, {}).get("status", "missing")
            if status != "deployed":
                found.append(f"release {name} is {status}")
        return found + self.unready()

    def unready(self) -> list[str]:
        """The pods of the control plane that are not Ready, one line each; terminating pods don't count."""
        found = []
        for pod in self.kube.list(_PODS, "kube-system"):
            conditions = {entry["type"]: entry["status"] for entry in pod.get("status", {}).get("conditions", [])}
            if conditions.get("Ready") != "True" and "deletionTimestamp" not in pod["metadata"]:
                found.append(f"pod {pod['metadata']['name']} is not Ready")
        return found

    def crashed(self, words: str) -> bool:
        """Whether a container of the control plane has terminated with that text in its message."""
        for pod in self.kube.list(_PODS, "kube-system"):
            for status in pod.get("status", {}).get("containerStatuses", []):
                ended = [status[key].get("terminated") or {} for key in ("state", "lastState")]
                if any(words in each.get("message", "") for each in ended):
                    return True
        return False

    def killed_for_memory(self) -> bool:
        """Whether a container of the control plane was ended by the kernel at its memory limit."""
        for pod in self.kube.list(_PODS, "kube-system"):
            for status in pod.get("status", {}).get("containerStatuses", []):
                ended = [status[key].get("terminated") or {} for key in ("state", "lastState")]
                if any(each.get("reason") == "OOMKilled" for each in ended):
                    return True
        return False

    def standby_pods(self) -> list[str]:
        """The active standby pods, by manifest; without the pod-checkpointer's own, which is always active."""
        listed = self.on_controller("ls", "/etc/kubernetes/manifests").split()
        return [name for name in listed if name.startswith("checkpoint-") and "pod-checkpointer" not in name]

    def containers(self, node: str = "") -> set[str]:
        """The IDs of the control plane's containers that are running according to the API, on a node or everywhere."""
        pods = self.kube.list(_PODS, "kube-system")
        on_it = (pod for pod in pods if node in ("", pod.get("spec", {}).get("nodeName")))
        return {container for pod in on_it for container in _running(pod)}

    def crash_and_boot(self) -> None:
        """Cut the controller's power and switch it on; returns once SSH answers."""
        self._machines.crash("controller-1")
        self._machines.boot("controller-1")

    def cut_power(self) -> None:
        """Cut the controller's power, switch it on, and wait until the API lists no old container of it as running.

        Other controllers, if there are any, serve before it is switched on.
        """
        before = self.containers("controller-1")
        self._machines.crash("controller-1")
        if self._machines.placement.spec.controllers > 1:
            until("the others to serve", lambda: self.containers() != set(), timeout_seconds=60)
        self._machines.boot("controller-1")
        until(
            "the control plane to be back after a power cut, in new containers",
            lambda: not before & self.containers("controller-1"),
            timeout_seconds=240,
        )

    def wait_healthy(self, version: str, *, timeout_seconds: float = 120.0) -> None:
        """Wait until the cluster is healthy; raises AssertionError with what is wrong."""
        try:
            until("a healthy cluster", lambda: not self.troubles(version), timeout_seconds=timeout_seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {self.troubles(version)}") from error

    def wait_until_settled(self, version: str) -> None:
        """Wait until it is healthy, no standby pod is active, and every gate would pass: minutes after a boot.

        A deactivated standby pod drains for a while, and takes memory and CPU from a new pod meanwhile.
        """
        self.wait_healthy(version)
        until("the standby pods to be deactivated", lambda: self.standby_pods() == [], timeout_seconds=120)
        until("the deactivated standby pods to end", lambda: self._api_servers() == 1, timeout_seconds=60)
        until("the API to list no pod that ends or has ended", lambda: not self._ending(), timeout_seconds=120)
        until("the pod-checkpointer to be Ready for a while", self._checkpointer_settled, timeout_seconds=60)

    def _api_servers(self) -> int:
        """The number of kube-apiserver processes on the controller, also of pods that are deleted in the API."""
        return len(self.on_controller("pidof", "kube-apiserver").split())

    def _ending(self) -> list[str]:
        """The controller's pods that are being deleted, or of which the API lists a container that has ended."""
        running = set(self.on_controller("ctr", "-n", "k8s.io", "tasks", "ls", "-q").split())
        return [
            pod["metadata"]["name"]
            for pod in self.kube.list(_PODS, "kube-system")
            if pod.get("spec", {}).get("nodeName") == "controller-1"
            and ("deletionTimestamp" in pod["metadata"] or not _running(pod) <= running)
        ]

    def _checkpointer_settled(self) -> bool:
        """As a check sees it, which also blocks a run for seconds after a container of it failed."""
        checkpointer = WorkloadRef("DaemonSet", "kube-system", "pod-checkpointer")
        return diagnose_workload(self.kube, checkpointer).kind is VerdictKind.HOLDS

    def down(self) -> None:
        """Remove the cluster and all its files."""
        self.kube.close()
        self.lab("down", "--force")

    def wait_after_boot(self) -> None:
        """Wait for new pods: the API still lists pods as Ready that the reboot ended."""
        self._machines.wait_until_ready(stretched(240))
        self.wait_healthy(self.version)


def _running(pod: Mapping[str, Any]) -> set[str]:
    """The IDs of a pod's containers that are running according to the API, as the container runtime has them."""
    return {
        status["containerID"].removeprefix("containerd://")
        for status in pod.get("status", {}).get("containerStatuses", [])
        if "running" in status["state"]
    }


def lent_cluster(folder: Path, scratch: Path) -> LabCluster:
    """An adopted lab that somebody else made and removes, by its cluster folder (`…/.lab/NAME`); its files are kept in
    `scratch`. It can be restored if it was saved (`upgrader lab save adopted`).
    """
    folder = folder.resolve()
    cluster = LabCluster(folder.name, folder.parents[1], scratch / "kept")
    cluster.keep_files()
    return cluster


def make_cluster(
    name: str,
    home: Path,
    *switches: str,
    clock_skew_seconds: float = 0.0,
    version: str = OLD,
    checkpointer: Mapping[str, Any] = MappingProxyType({}),
    saved: bool = True,
) -> LabCluster:
    """Bring a one-controller lab up at a version, and adopt it; on any failure, remove it.

    `switches` are further options of `lab up`, such as `--registry`; `checkpointer` are values of the pod-checkpointer.
    Only one that is `saved`, which reboots it, can be restored.
    """
    cluster = LabCluster(name, home, home / "kept", clock_skew_seconds, version)
    try:
        cluster.lab("up", "--kubernetes", version, *switches)
        cluster.change_values("pod-checkpointer", checkpointer)
        _must(cluster.upgrader("adopt", "--yes"))
        assert set(cluster.versions()) == set(COMPONENTS)
        cluster.wait_healthy(version)
        cluster.keep_files()
        if saved:
            cluster.save()
    except BaseException:
        upgrader("-C", home, "lab", "down", "--force", "--name", name)
        raise
    return cluster


def _must(ended: Ended) -> Ended:
    if ended.exit_code:
        raise AssertionError(str(ended))
    return ended


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for key, value in changes.items():
        both = isinstance(merged.get(key), dict) and isinstance(value, Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
