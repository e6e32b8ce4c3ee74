"""A fleet of labs whose runs are Jobs on another lab, the management cluster (the hub)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from testkit.command import Ended, upgrader
from testkit.lab_cluster import TARGET, LabCluster, make_cluster
from testkit.labs import every_address
from testkit.waiting import stretched, waiting
from tests.soak.fleet_release import FleetRelease
from upgrader.fleet.job_objects import CONTAINER, JOBS
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.gates.kubernetes_kinds import NAMESPACES, PODS, SECRETS
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind, KubeObject

__all__ = ["LabFleet", "lab_fleet"]

_POLICIES = Kind("networking.k8s.io/v1", "networkpolicies")
_REPOSITORY = "registry.example/upgrader/upgrader-runner"
"""No node can reach it: it has the image already."""
_NAMESPACE, _ACCOUNT, _PREFIX = "fleet", "fleet-coordinator", "fleet-"
"""Of the chart's release, and as the chart has them by default."""
_KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf"
_WORKER, _CONTROLLER = "worker-1", "controller-1"
_PER_SECOND = 10.0
_PLAYS = {
    "mark": {"ansible.builtin.copy": {"dest": "/etc/upgrader-fleet", "content": "here\n", "mode": "0644"}},
    "unmark": {"ansible.builtin.file": {"path": "/etc/upgrader-fleet", "state": "absent"}},
}
_FIREWALL = """
table ip fleet {{
  set refused {{ type ipv4_addr . inet_service; flags dynamic; size 1024; }}
  chain forward {{
    type filter hook forward priority 10; policy accept;
    ct state established,related accept
    ip saddr != {pods} accept
    ip daddr {own} accept
{allowed}
    meta l4proto tcp add @refused {{ ip daddr . tcp dport }}
    drop
  }}
}}
"""


@dataclass(frozen=True)
class LabFleet:
    """Its folder, the hub, and the clusters by their names, each in a stage of that name, in this order."""

    folder: Path
    hub: LabCluster
    clusters: Mapping[str, LabCluster]
    release: FleetRelease

    def run(self, *arguments: str, timeout_seconds: float = 1500.0) -> Ended:
        """Run `upgrader fleet run --executor jobs` to its end."""
        return self._ended(["run", "--executor", "jobs", "--yes", *arguments], timeout_seconds)

    def plan(self) -> Path:
        """Save its plan, which is as it was if nothing changes."""
        path = self.folder / "fleet.plan"
        ended = self._ended(["plan", "--out", str(path)], 300.0)
        assert ended.exit_code == 0, ended
        return path

    def _ended(self, arguments: Sequence[str], timeout_seconds: float) -> Ended:
        """Of `upgrader fleet`, installed from the wheel."""
        words = ["-C", str(self.folder), "fleet", *arguments]
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        begun = time.monotonic()
        with waiting(f"fleet {arguments[0]}"):
            done = subprocess.run(
                [self.release.program, *words],
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=stretched(timeout_seconds),
                check=False,
            )
        return Ended(tuple(words), done.returncode, done.stdout, done.stderr, time.monotonic() - begun)

    @contextmanager
    def clients(self) -> Iterator[Mapping[str, AvailabilityProbe]]:
        """Clients of all kinds at every address of each cluster's API."""
        with ExitStack() as stack:
            yield {
                name: stack.enter_context(
                    AvailabilityProbe(
                        cluster.folder / "kubeconfig",
                        requests_per_second=_PER_SECOND,
                        addresses=every_address(cluster.kube, [_controller(cluster)]),
                    )
                )
                for name, cluster in self.clusters.items()
            }

    def install_coordinator(self, **spec: object) -> None:
        """Have the chart's Deployment continue the campaigns of a copy of the folder, as docs/fleet.md says; `spec` has
        what differs in its fleet.yaml.
        """
        file, lab = self.folder / "fleet.yaml", Lab.find(self.hub.name)
        before = file.read_text()
        campaign = yaml.safe_load(before)
        campaign["spec"] |= {**spec, "jobs": {**campaign["spec"]["jobs"], "kubeconfig": "/etc/fleet/hub.kubeconfig"}}
        file.write_text(yaml.safe_dump(campaign, sort_keys=False))
        place = str(self.folder)
        hidden = shlex.join(f"./{each.folder.relative_to(self.folder)}" for each in self.clusters.values())
        packed = subprocess.run(f"cd {place} && tar -ch ./* {hidden}", shell=True, capture_output=True, check=True)
        file.write_text(before)
        lab.run(_WORKER, f"install -d -o 1000 -g 1000 {place}")
        values = yaml.safe_load((self.folder / "values.yaml").read_text())
        values["coordinator"] = {
            "image": f"{_REPOSITORY}@{self.release.digest}",
            "folder": place,
            "volume": {"hostPath": {"path": place, "type": "Directory"}},
        }
        _install(self, values)
        unpack = f"{_KUBECTL} -n {_NAMESPACE} exec -i deploy/fleet-coordinator -- tar -x -C {place}"
        subprocess.run([*lab.ssh(_CONTROLLER), unpack], input=packed.stdout, check=True, timeout=stretched(120))

    def on_hub(self, *arguments: str) -> str:
        """What `upgrader fleet` prints in the coordinator's pod, also if it fails."""
        return self.hub.on_controller(f"{self._in_pod(arguments)} 2>&1 || true")

    def start_on_hub(self, *arguments: str) -> None:
        """The same, without a wait for its end."""
        self.hub.on_controller(f"nohup {self._in_pod(arguments)} > /tmp/fleet.log 2>&1 < /dev/null &")

    def delete_coordinator(self) -> None:
        """Its pod; the Deployment makes another one."""
        self.hub.on_controller(f"{_KUBECTL} -n {_NAMESPACE} delete pod -l app.kubernetes.io/component=coordinator")

    def _in_pod(self, arguments: Sequence[str]) -> str:
        upgrader = shlex.join(["upgrader", "-C", str(self.folder), "fleet", *arguments])
        return f"{_KUBECTL} -n {_NAMESPACE} exec deploy/fleet-coordinator -- {upgrader}"

    def jobs(self, name: str) -> tuple[KubeObject, ...]:
        """Of a cluster."""
        return self.hub.kube.list(JOBS, f"{_PREFIX}{name}")

    def pods(self, name: str) -> tuple[KubeObject, ...]:
        """Of a cluster's Jobs."""
        return self.hub.kube.list(PODS, f"{_PREFIX}{name}")

    def log(self, pod: KubeObject) -> str:
        """What its run has written last."""
        place = pod["metadata"]
        return self.hub.kube.logs(place["namespace"], place["name"], CONTAINER, lines=50)

    def secrets(self, name: str) -> list[str]:
        """What is left of what a cluster's Jobs have read."""
        found = self.hub.kube.list(SECRETS, f"{_PREFIX}{name}", labels=f"upgrader.io/cluster={name}")
        return [each["metadata"]["name"] for each in found]

    def refused(self) -> Sequence[object]:
        """The addresses and ports outside the hub that a pod has tried and no NetworkPolicy has."""
        listed = json.loads(Lab.find(self.hub.name).run(_WORKER, "nft -j list set ip fleet refused"))
        return [each for part in listed["nftables"] for each in part.get("set", {}).get("elem", ())]


@contextmanager
def lab_fleet(folder: Path, names: Sequence[str], release: FleetRelease) -> Iterator[LabFleet]:
    """A hub with a worker, and an adopted cluster for each name; all are removed at the end."""
    hub = LabCluster(f"e2e-hub-{os.getpid()}", folder, folder / "kept")
    clusters: dict[str, LabCluster] = {}
    try:
        hub.lab("up", "--workers", "1")
        for name in names:
            clusters[name] = make_cluster(f"e2e-{name}-{os.getpid()}", folder, saved=False)
            clusters[name].wait_until_settled(clusters[name].version)
        yield ready_fleet(LabFleet(folder, hub, clusters, release))
    finally:
        for made in (hub, *clusters.values()):
            made.kube.close()
            upgrader("-C", folder, "lab", "down", "--force", "--name", made.name)


def ready_fleet(fleet: LabFleet) -> LabFleet:
    """Connect the labs, bring the image and the chart to the hub, and write the fleet's files."""
    for cluster in (fleet.hub, *fleet.clusters.values()):
        # This machine routes between its labs only what comes from them; each setting goes with its bridge.
        bridge = Lab.find(cluster.name).placement.prefix
        Path(f"/proc/sys/net/ipv4/conf/{bridge}/forwarding").write_text("1")
    for cluster in fleet.clusters.values():
        _write_pipeline(cluster)
    _write_files(fleet)
    _bring_image(fleet)
    _install_chart(fleet)
    _enforce_policies(fleet)
    return fleet


def _controller(cluster: LabCluster) -> str:
    return Lab.find(cluster.name).placement.node(_CONTROLLER).address


def _write_pipeline(cluster: LabCluster) -> None:
    """A playbook with an undo before the releases: the Jobs need Ansible and SSH, too."""
    (cluster.folder / "plays").mkdir()
    for name, task in _PLAYS.items():
        play = {"name": name, "hosts": "controllers", "gather_facts": False, "tasks": [{"name": name, **task}]}
        (cluster.folder / "plays" / f"{name}.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    releases = [{"release": each} for each in ("pod-checkpointer", "kube-apiserver", "kubernetes")]
    pipeline = [{"playbook": "plays/mark.yml", "undo": "plays/unmark.yml"}, *releases]
    cluster.change_settings({"pipeline": pipeline, "policy": {"emulation": True}})


def _write_files(fleet: LabFleet) -> None:
    entries = []
    for name, cluster in fleet.clusters.items():
        system = cluster.kube.get(NAMESPACES, "kube-system")
        assert system is not None
        folder = str(cluster.folder.relative_to(fleet.folder))
        entries.append({"name": name, "folder": folder, "uid": system["metadata"]["uid"], "labels": {"ring": name}})
    (fleet.folder / "fleet-inventory.yaml").write_text(yaml.safe_dump({"clusters": entries}, sort_keys=False))
    soak = {"for": "30s", "minRequests": 100}
    stages = [{"name": name, "selector": {"matchLabels": {"ring": name}}, "soak": soak} for name in fleet.clusters]
    jobs = {"image": f"{_REPOSITORY}@{fleet.release.digest}", "grace": "10m"}
    spec = {"target": TARGET, "stages": stages, "jobs": jobs}
    campaign = {"apiVersion": "upgrader.io/v1alpha1", "kind": "FleetRun", "spec": spec}
    (fleet.folder / "fleet.yaml").write_text(yaml.safe_dump(campaign, sort_keys=False))


def _bring_image(fleet: LabFleet) -> None:
    """Import it, and give it the name with its digest that a pull would have."""
    lab = Lab.find(fleet.hub.name)
    with fleet.release.image.open("rb") as archive:
        command = [*lab.ssh(_WORKER), "ctr -n k8s.io images import -"]
        subprocess.run(command, stdin=archive, capture_output=True, check=True, timeout=stretched(120))
    name = f"{_REPOSITORY}@{fleet.release.digest}"
    # By the first of its names, as Docker would complete it, containerd's CRI plugin looks for the image.
    lab.run(_WORKER, f"ctr -n k8s.io images tag {fleet.release.name} docker.io/library/{fleet.release.name} {name}")


def _install_chart(fleet: LabFleet) -> None:
    """As its README says; then the coordinator's kubeconfig."""
    clusters = [
        {"name": name, "egress": [{"cidr": f"{_controller(cluster)}/32"}]} for name, cluster in fleet.clusters.items()
    ]
    _install(fleet, {"clusters": clusters})
    token = fleet.hub.on_controller(f"{_KUBECTL} -n {_NAMESPACE} create token {_ACCOUNT} --duration=8h").strip()
    kubeconfig = yaml.safe_load((fleet.hub.folder / "kubeconfig").read_text())
    kubeconfig["users"][0]["user"] = {"token": token}
    file = fleet.folder / "hub.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(kubeconfig))


def _install(fleet: LabFleet, values: Mapping[str, object]) -> None:
    file = fleet.folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    place = ["--namespace", _NAMESPACE, "--create-namespace", "--values", str(file)]
    fleet.hub.helm("upgrade", "--install", "fleet", str(fleet.release.chart), *place, "--rollback-on-failure", "--wait")


def _enforce_policies(fleet: LabFleet) -> None:
    """A lab's pod network enforces no NetworkPolicy: have the worker let pods connect only to what one of them lists.

    Unlike a network plugin, it doesn't tell the namespaces' pods apart.
    """
    lab = Lab.find(fleet.hub.name)
    allowed = []
    for policy in fleet.hub.kube.list(_POLICIES):
        for rule in policy["spec"]["egress"]:
            ports = ", ".join(str(port["port"]) for port in rule["ports"] if port["protocol"] == "TCP")
            blocks = (peer["ipBlock"]["cidr"] for peer in rule["to"] if "ipBlock" in peer)
            allowed += [f"    ip daddr {cidr} tcp dport {{ {ports} }} accept" for cidr in blocks]
    assert len(allowed) == len(fleet.clusters), allowed
    placement = lab.placement
    rules = _FIREWALL.format(pods=placement.pod_subnets[0], own=placement.network, allowed="\n".join(allowed))
    lab.run(_WORKER, f"nft -f - <<'END'\n{rules}\nEND\n")
