"""The workers of a real cluster whose control plane is at the target already: runs change only nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.command import REPOSITORY, Ended, running, upgrader
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.nodes import kubelets, node_sources
from testkit.waiting import stretched
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent
from upgrader.model.node_mark import MARK, NodeMark
from upgrader.ports import Kind

__all__ = ["WORKERS", "Workers"]

WORKERS = ("worker-1", "worker-2")

_PODS = Kind("v1", "pods")
_NODES = Kind("v1", "nodes", namespaced=False)
_FAULT = "/etc/systemd/system/kubelet.service.d/99-fault.conf"


@dataclass(frozen=True)
class Workers:
    """Both workers, and the operations of the tests."""

    cluster: LabCluster

    def configure(self, **nodes: Any) -> None:
        """Set `nodes` of upgrader.yaml, with the lab's programs as its source."""
        self.cluster.change_settings({"nodes": {"source": node_sources([TARGET]), **nodes}})

    def run(self) -> Ended:
        """A run to the target."""
        return self.cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=1200)

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[str]]:
        """A run whose checks have passed and whose first step has begun; killed if the context ends before it does."""
        before = set(self.cluster.runs())

        def begun() -> bool:
            if run.poll() is not None:
                raise AssertionError(f"it ended before its first step: {run.communicate()[0]}")
            paths = [self.cluster.folder / "runs" / name / "journal.jsonl" for name in self.cluster.runs()]
            new = [path for path in paths if path.parent.name not in before and path.exists()]
            return any('"StepStarted"' in path.read_text() for path in new)

        with running("-C", self.cluster.folder, "run", "--to", TARGET, "--new", "--yes") as run:
            until("the run's first step", begun, timeout_seconds=300)
            yield run

    def state(self) -> Mapping[str, str]:
        """Worker → its kubelet's version, and the mark of its upgrade."""
        found = {}
        for name in WORKERS:
            node: Any = self.cluster.kube.get(_NODES, name)
            mark = NodeMark.of(node)
            left = ["cordoned"] if node["spec"].get("unschedulable") else []
            left += [mark.phase] if mark else []
            found[name] = " ".join([node["status"]["nodeInfo"]["kubeletVersion"], *left])
        return found

    def phase(self, name: str) -> str:
        """How far the upgrade of a node got; "" if none is in progress."""
        mark = NodeMark.of(self.cluster.kube.get(_NODES, name) or {"metadata": {}})
        return mark.phase if mark else ""

    def ready(self, name: str) -> bool:
        """Whether the API reports it as Ready."""
        node: Any = self.cluster.kube.get(_NODES, name)
        return any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"]["conditions"])

    def on(self, name: str, script: str) -> str:
        """Standard output of a script on a node."""
        ended = upgrader("-C", self.cluster.home, "lab", "shell", name, "--name", self.cluster.name, "--", script)
        assert ended.exit_code == 0, ended
        return ended.stdout

    def kill_when(self, what: str, holds: Callable[[], bool]) -> None:
        """Start a run, and SIGKILL it as soon as the condition is true; fails if it ends before."""
        with self.started() as run:

            def there() -> bool:
                if run.poll() is not None:
                    raise AssertionError(f"it ended before {what}: {run.communicate()[0]}")
                return holds()

            until(what, there, timeout_seconds=600, interval_seconds=0.05)

    def break_new_kubelet(self, name: str, script: str) -> None:
        """Have systemd run a script on that node before each start of a kubelet, whose version is its `$1`."""
        command = f"/bin/sh -c 'set -- $(/usr/bin/kubelet --version | cut -d\" \" -f2); {script}'"
        escaped = command.replace("$", "$$")
        self.on(
            name,
            f"mkdir -p $(dirname {_FAULT}) && cat > {_FAULT} <<'END'\n[Service]\nExecStartPre={escaped}\nEND\n"
            "systemctl daemon-reload && systemctl restart kubelet",
        )

    def mend(self, name: str) -> None:
        """Remove the script of `break_new_kubelet`."""
        self.on(name, f"rm -f {_FAULT} && systemctl daemon-reload && systemctl restart kubelet")

    def spread(self) -> None:
        """Have the workload's pods rescheduled, until each worker has one: a drained worker has had none since."""
        kube = self.cluster.kube

        def is_spread() -> bool:
            placed = [pod for pod in kube.list(_PODS, "default", labels="app=web") if "nodeName" in pod["spec"]]
            if len(placed) == 3 and {pod["spec"]["nodeName"] for pod in placed} == set(WORKERS):
                return True
            for pod in placed:
                kube.delete(_PODS, pod["metadata"]["name"], "default")
            return False

        until("the workload to be on both workers", is_spread, timeout_seconds=60, interval_seconds=5)

    def swapping(self, name: str) -> bool:
        """Whether the playbook is changing a node's programs."""
        point = "cat /var/lib/upgrader/node-restore/restore-point.json || true"
        return self.phase(name) == "swap" and '"state": "swapping"' in self.on(name, point)

    def prepare(self, *names: str) -> None:
        """Bring these to the old version and the others to the new one, without a drain, from any state that a test has
        left.
        """
        if not self.as_before(*names):
            self._playbook("restore-node", names)
            self._playbook("upgrade-node", [name for name in WORKERS if name not in names])
            for name in WORKERS:
                left: Any = {"metadata": {"annotations": {MARK: None}}, "spec": {"unschedulable": None}}
                self.cluster.kube.patch(_NODES, name, left)
        until("the workers' old and new kubelets", lambda: self.as_before(*names), timeout_seconds=120)

    def as_before(self, *names: str) -> bool:
        """Whether these are at the old version and the others upgraded, all Ready, and no upgrade is in progress."""
        wanted = {name: OLD if name in names else TARGET for name in WORKERS}
        return self.state() == wanted and all(map(self.ready, WORKERS))

    def upgraded(self) -> bool:
        """The same at the new version, with the controller."""
        return set(kubelets(self.cluster.kube).values()) == {TARGET} and self.as_before()

    def programs(self, name: str) -> str:
        """The SHA-256 of the installed files."""
        return self.on(name, "sha256sum /usr/bin/kubelet /usr/bin/kubeadm /usr/bin/kubectl")

    def _playbook(self, name: str, nodes: Collection[str]) -> None:
        if not nodes:
            return
        program = Path(sys.executable).with_name("ansible-playbook")
        variables = json.dumps(node_source(TARGET, Silent()).variables())
        words = [program, "-i", self.cluster.folder / "hosts.yml", "--limit", ",".join(nodes), "-e", variables]
        command = [*map(str, words), str(REPOSITORY / "playbooks" / f"{name}.yml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=stretched(600))
        assert done.returncode == 0, done.stdout
