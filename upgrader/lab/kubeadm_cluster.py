"""Makes a cluster of running machines: kubeadm init and join, pod networks, and the wait until everything is Ready."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from upgrader.errors import LabError
from upgrader.lab import bridge
from upgrader.lab.binaries import kubectl
from upgrader.lab.cluster_folder import ssh_command
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.flannel import NAMESPACE as FLANNEL
from upgrader.lab.flannel import forget
from upgrader.lab.kubeadm_config import Secrets, init_config, join_config
from upgrader.lab.likeness import Likeness
from upgrader.lab.readiness import condition, troubles, unready
from upgrader.lab.spec import Node, Placement

__all__ = ["APPLY_EACH", "KubeadmCluster"]

APPLY_EACH = ("apply", "--server-side", "--force-conflicts", "--validate=false", "--filename=-")
"""kubectl's arguments to apply a list. Its own validation would refuse the whole list for one object; the API server
judges each by itself.
"""
_REFUSED = "not all were created"
_OPERATOR = """
{apiVersion: v1, kind: ServiceAccount, metadata: {name: lab-operator, namespace: kube-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lab-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: lab-operator, namespace: kube-system}]
"""


class KubeadmCluster:
    """Operations on the nodes of one lab over SSH; each is idempotent and has a deadline."""

    def __init__(self, placement: Placement, runner: CommandRunner) -> None:
        self._placement = placement
        self._runner = runner
        self._first = next(node for node in placement.nodes if node.role == "controller")

    def run(self, node: Node, script: str, *, what: str, timeout_seconds: float = 60) -> str:
        """Standard output of a shell script on a node."""
        command = [*ssh_command(self._placement, node), "sh", "-eu"]
        return self._runner.run(command, what=f"{node.name}: {what}", stdin=script, timeout_seconds=timeout_seconds)

    def wait_for_ssh(self, node: Node, deadline_seconds: float = 60) -> None:
        """Wait until the node accepts logins and, if it will run Kubernetes, its containerd answers."""
        probe = "ctr version >/dev/null" if node.kubernetes else "true"
        self._until(
            lambda: self.run(node, probe, what="login", timeout_seconds=10) is not None,
            f"{node.name}: login",
            deadline_seconds,
        )

    def init(self, secrets: Secrets, versions: dict[str, str]) -> str:
        """Run `kubeadm init` on the first controller, unless done; returns its admin.conf."""
        config = init_config(self._placement, secrets, versions)
        several = " --upload-certs" if self._placement.spec.controllers > 1 else ""
        self._kubeadm(self._first, config, f"init{several} --skip-token-print --skip-certificate-key-print", 240)
        return self.run(self._first, "cat /etc/kubernetes/admin.conf", what="kubeconfig")

    def join(self, node: Node, secrets: Secrets) -> None:
        """Run `kubeadm join` on any other node, unless done."""
        self._kubeadm(node, join_config(self._placement, node, secrets), "join", 240)

    def join_again(self, node: Node, secrets: Secrets, versions: dict[str, str]) -> None:
        """Reset a node (`kubeadm reset`), and run `kubeadm join` on it with a token from another controller.

        Its images stay. The credentials for joining from the lab's creation have expired by now.
        """
        host = self.leave(node)
        config = init_config(self._placement, secrets, versions)
        invite = f"""
umask 077
cat > /run/kubeadm.yaml <<'END'
{config}
END
for phase in "upload-certs --upload-certs --skip-certificate-key-print" "bootstrap-token --skip-token-print"; do
    kubeadm init phase $phase --config /run/kubeadm.yaml >/var/log/kubeadm-invite.log 2>&1 ||
        {{ tail -n 12 /var/log/kubeadm-invite.log >&2; exit 1; }}
done
rm /run/kubeadm.yaml
"""
        self.run(host, invite, what="letting a node join", timeout_seconds=120)
        self.join(node, secrets)

    def leave(self, node: Node) -> Node:
        """Reset a node and delete its Node; returns the controller that deleted it. Its images stay.

        Its pod network is removed: until it has one again, it isn't Ready.
        """
        others = (each for each in self._placement.nodes if each.role == "controller" and each != node)
        host = next(others, None)
        if host is None:
            raise LabError(f"{node.name} is the only controller: it can't leave the cluster")
        reset = "kubeadm reset --force --cri-socket=unix:///run/containerd/containerd.sock"
        self.run(
            node,
            f"rm -f /etc/lab/kubeadm-done; {reset} >/var/log/kubeadm-reset.log 2>&1 || {{ tail -n 12 "
            f"/var/log/kubeadm-reset.log >&2; exit 1; }}; rm -f /etc/cni/net.d/10-lab.conflist; {forget()}",
            what="kubeadm reset",
            timeout_seconds=240,
        )
        delete = f"kubectl --kubeconfig=/etc/kubernetes/admin.conf delete node {node.name} --ignore-not-found"
        self.run(host, f"{delete} >/dev/null", what="kubectl delete node")
        return host

    def apply(self, manifests: str) -> None:
        """Write objects, given as YAML or JSON, to the API; as kubeadm's administrator, on the first controller."""
        script = f"kubectl --kubeconfig=/etc/kubernetes/admin.conf apply --filename=- <<'END'\n{manifests}\nEND\n"
        self.run(self._first, script, what="kubectl apply")

    def label(self, node: Node) -> None:
        """Give a node the labels that it has as one of another cluster's."""
        likeness = Likeness.parse(self._placement.spec.like)
        if likeness and (labels := likeness.node(node).labels):
            words = " ".join(quote(f"{key}={value}") for key, value in labels.items())
            script = f"kubectl --kubeconfig=/etc/kubernetes/admin.conf label --overwrite node {node.name} {words}"
            self.run(self._first, script, what=f"labels of {node.name}")

    def create(self, objects: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Create objects, or change them to what is given; those that are refused don't keep the others from it.

        Returns kubectl's lines about those that are refused. Raises LabError if it can't be run.
        """
        if not objects:
            return ()
        manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})  # one line: it ends no script
        command = f"kubectl --kubeconfig=/etc/kubernetes/admin.conf {' '.join(APPLY_EACH)}"
        script = f"{command} 2>&1 >/dev/null <<'END' || echo {_REFUSED}\n{manifests}\nEND\n"
        said = self.run(self._first, script, what="kubectl apply", timeout_seconds=300).splitlines()
        if _REFUSED not in said:
            return ()  # what is left are warnings
        return tuple(line for line in said if line.strip() and line != _REFUSED and not line.startswith("Warning: "))

    def unready_workloads(self, deadline_seconds: float) -> tuple[str, ...]:
        """The workloads that don't have all their pods Ready by the deadline, as `Deployment shop/web`."""
        missing = ["the workloads, which can't be listed"]

        def ready() -> bool:
            missing[:] = unready(self._get("deployments,daemonsets,statefulsets --all-namespaces"))
            return not missing

        with suppress(LabError):
            self._until(ready, "workloads", deadline_seconds)
        return tuple(missing)

    def operator_token(self) -> str:
        """A token of the ServiceAccount `lab-operator`, a cluster administrator; valid for a month."""
        self.apply(_OPERATOR)
        command = "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system create token lab-operator"
        return self.run(self._first, f"{command} --duration=720h", what="token").strip()

    def user_kubeconfig(self, user: str) -> str:
        """The kubeconfig of a user of that name, who has no rights yet, as kubeadm makes it."""
        settings = "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system get configmap kubeadm-config"
        script = f"""
umask 077
{settings} -o 'jsonpath={{.data.ClusterConfiguration}}' > /run/kubeadm-user.yaml
kubeadm kubeconfig user --client-name={user} --config=/run/kubeadm-user.yaml
rm /run/kubeadm-user.yaml
"""
        return self.run(self._first, script, what=f"kubeconfig of {user}")

    def connect_pods(self, names: Collection[str] = (), deadline_seconds: float = 240) -> None:
        """Give every node, as soon as it has registered, its CNI configuration and the routes to the others' pods.

        `names` are the nodes to wait for; (): all nodes of a new lab. If flannel connects the pods, nothing is done.
        """
        if self._placement.spec.flannel:
            return
        wanted = set(names) or {node.name for node in self._placement.nodes if node.kubernetes}
        connected: dict[str, tuple[str, ...]] = {}

        def all_connected() -> bool:
            found = {
                item["metadata"]["name"]: tuple(cidrs)
                for item in self._get("nodes")
                if (cidrs := item["spec"].get("podCIDRs"))
            }
            if found != connected:
                nodes = [node for node in self._placement.nodes if node.name in found]
                self._runner.together([partial(self._connect, node, nodes, found) for node in nodes])
                bridge.route_pods(self._placement, found)
                connected.update(found)
            return wanted <= set(connected)

        self._until(all_connected, "a pod network (node.spec.podCIDRs) for every node", deadline_seconds)

    def _connect(self, node: Node, nodes: Sequence[Node], pod_cidrs: Mapping[str, Sequence[str]]) -> None:
        """Write one node's CNI configuration and its routes to pods; effective now and after a boot."""
        others: list[tuple[str, str]] = []
        for other in nodes:
            if other is not node:
                others += zip(pod_cidrs[other.name], self._placement.node_addresses(other), strict=True)
        routes = "".join(f"{cidr} {address}\n" for cidr, address in others)
        lines = [f"printf %s {quote(routes)} > /etc/lab/routes"]
        lines += [f"ip route replace {cidr} via {address}" for cidr, address in others]
        # Renamed into place: containerd reads the folder whenever it changes.
        lines.append(f"printf %s {quote(bridge.cni_config(pod_cidrs[node.name]))} > /etc/cni/net.d/.lab.new")
        lines.append("mv /etc/cni/net.d/.lab.new /etc/cni/net.d/10-lab.conflist")
        self.run(node, "\n".join(lines), what="pod network")

    def wait_until_ready(self, switched_on: Mapping[str, float], deadline_seconds: float = 180) -> None:
        """Wait until every node and every pod of kube-system and flannel are Ready; `switched_on` as for
        `readiness.troubles`.
        """
        missing: list[str] = []
        namespaces = ("kube-system", *((FLANNEL,) if self._placement.spec.flannel else ()))

        def ready() -> bool:
            pods = [pod for namespace in namespaces for pod in self._get(f"pods -n {namespace}")]
            missing[:] = troubles(self._get("nodes"), pods, switched_on)
            return not missing

        self._until(ready, "nodes and kube-system pods", deadline_seconds, lambda: f"not Ready: {', '.join(missing)}")

    def nodes(self) -> dict[str, tuple[str, str]]:
        """Name → (Ready, NotReady or Unknown; kubelet version) as the API reports them."""
        known = {"True": "Ready", "False": "NotReady", "Unknown": "Unknown"}
        return {
            item["metadata"]["name"]: (known[condition(item, "Ready")], item["status"]["nodeInfo"]["kubeletVersion"])
            for item in self._get("nodes")
        }

    def import_images(self, node: Node, archive: Path) -> None:
        """Import an OCI archive into the node's containerd."""
        command = [*ssh_command(self._placement, node), "ctr -n k8s.io images import -"]
        self._runner.run(command, what=f"{node.name}: importing images", stdin=archive, timeout_seconds=120)

    def images(self, node: Node) -> tuple[set[str], set[str]]:
        """Names of the images, and digests of all content, in the node's containerd."""
        script = "ctr -n k8s.io images ls -q; echo; ctr -n k8s.io content ls -q"
        names, _, digests = self.run(node, script, what="list of images").partition("\n\n")
        return set(names.split()), set(digests.split())

    def _kubeadm(self, node: Node, config: str, command: str, timeout_seconds: float) -> None:
        script = f"""
if [ -e /etc/lab/kubeadm-done ]; then exit 0; fi
umask 077
cat > /run/kubeadm.yaml <<'END'
{config}
END
if ! kubeadm {command} --config /run/kubeadm.yaml >/var/log/kubeadm.log 2>&1; then
    tail -n 12 /var/log/kubeadm.log >&2
    exit 1
fi
rm /run/kubeadm.yaml
touch /etc/lab/kubeadm-done
"""
        self.run(node, script, what=f"kubeadm {command.split()[0]}", timeout_seconds=timeout_seconds)

    def _get(self, what: str) -> list[dict[str, Any]]:
        # From this machine: any healthy controller can answer, and the users' kubeconfig is tested.
        kubeconfig = self._placement.folder / "kubeconfig"
        command = [str(kubectl(self._placement.spec.kubernetes)), f"--kubeconfig={kubeconfig}", "--request-timeout=5s"]
        output = self._runner.run(
            [*command, "get", *what.split(), "-o", "json"], what=f"kubectl get {what}", timeout_seconds=20
        )
        items: list[dict[str, Any]] = json.loads(output)["items"]
        return items

    def _until(
        self, done: Callable[[], bool], what: str, deadline_seconds: float, detail: Callable[[], str] = lambda: ""
    ) -> None:
        until = time.monotonic() + deadline_seconds
        last = ""
        while not self._runner.cancelled:
            try:
                if done():
                    return
                last = detail()
            except LabError as error:
                last = error.message  # not yet: the next check may succeed
            if time.monotonic() > until:
                raise LabError(f"lab {self._placement.spec.name}: waited {deadline_seconds:.0f} s for {what}; {last}")
            time.sleep(0.2)
        raise LabError("cancelled")
