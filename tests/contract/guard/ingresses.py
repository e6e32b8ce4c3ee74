"""IngressDaemonSets on an API server without controllers: what Deployments' controller, kubelets and the agent of the
load balancer do is done here, and looked at while it is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
import yaml

from testkit.lab_cluster import until
from tests.contract.checking import merge
from upgrader.adapters.helm import find_helm
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject

__all__ = ["DEPLOYMENTS", "DETACH", "INGRESSES", "NODES", "Edge", "chart", "checkers", "edge", "install", "manifest"]

INGRESSES = Kind("ingressdaemonsets.mumoshu.github.io/v1alpha1", "ingressdaemonsets")
DEPLOYMENTS, DAEMON_SETS = Kind("apps/v1", "deployments"), Kind("apps/v1", "daemonsets")
NODES, PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_CHART = Path(__file__).parents[3] / "charts" / "guard"
_DETACHER = "node-detacher.variant.run"
ASKED, OUT, IN = (f"{_DETACHER}/{name}" for name in ("detached", "detachment-timestamp", "attachment-timestamp"))
GRACE = 2
DETACH = {
    "maxUnavailableNodes": 1,
    "annotateNodeToDetach": {"key": ASKED, "value": "true", "gracePeriodSeconds": 1},
    "waitForDetachmentByAnnotatedTimestamp": {"key": OUT, "format": "RFC3339", "gracePeriodSeconds": GRACE},
}


def chart() -> list[KubeObject]:
    """What Helm renders for the namespace `ops`, with IngressDaemonSets in `shop`."""
    command = [str(find_helm()), "template", "guard", str(_CHART), "--namespace=ops", "--values=-"]
    values = {"image": {"repository": "x"}, "ingress": {"enabled": True, "namespaces": ["shop"]}}
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def install(kube: KubeAdapter) -> None:
    """The chart's CustomResourceDefinition, until it is served."""
    (definition,) = (each for each in chart() if each["kind"] == "CustomResourceDefinition")
    if kube.get(_DEFINITIONS, definition["metadata"]["name"]) is None:
        kube.create(_DEFINITIONS, definition)

    def served() -> bool:
        try:
            kube.list(INGRESSES, "shop")
        except ApiError:
            return False
        return True

    until("IngressDaemonSets to be served", served, timeout_seconds=120, interval_seconds=0.1)


def manifest(name: str, rolling: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The document's example, in short."""
    container = {"name": "nginx", "image": "nginx:1", "ports": [{"containerPort": 80, "hostPort": 80}]}
    pod = {"nodeSelector": {"ingress": name}, "hostNetwork": True, "containers": [container]}
    return {
        "kind": "IngressDaemonSet",
        "apiVersion": INGRESSES.api_version,
        "metadata": {"name": name, "labels": {"team": "edge"}},
        "spec": {
            "podsPerNode": 2,
            "healthCheckNodePorts": [10080],
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "healthChecker": {"image": "mumoshu/ingress-daemonset-controller:latest", "imagePullPolicy": "Always"},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            **spec,
        },
    }


class Edge:
    """An IngressDaemonSet on nodes of its own. `ports`: node → its health port, where one is looked at."""

    def __init__(self, kube: KubeAdapter, name: str, nodes: Sequence[str]) -> None:
        self.kube, self.name, self.nodes = kube, name, nodes
        self.ports: dict[str, int] = {}
        self.most_asked = 0
        """The most nodes that were ever seen annotated."""
        self.replaced: list[str] = []
        """The nodes whose pods were replaced, in order."""
        self._answered: dict[str, float] = {}

    def health(self, node: str) -> int:
        """The HTTP status of its port; 0: nothing answers."""
        try:
            return self._asked(node).status
        except urllib3.exceptions.HTTPError:
            return 0

    def answer(self, node: str) -> str:
        """What its port says. Raises HTTPError."""
        return self._asked(node).data.decode()

    def _asked(self, node: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request("GET", f"http://127.0.0.1:{self.ports[node]}/", retries=False)

    def marks(self, node: str) -> dict[str, str]:
        """The Node's annotations."""
        found: Any = self.kube.get(NODES, node)
        return found["metadata"].get("annotations") or {}

    def deployment(self, node: str) -> Any:
        """The node's, None if there is none."""
        return self.kube.get(DEPLOYMENTS, f"{self.name}-{node}", "shop")

    def pods(self, node: str) -> list[Any]:
        """Those of a node."""
        return list(self.kube.list(PODS, "shop", labels=f"app={self.name},ingress-daemon-for-node={node}"))

    def images(self) -> list[str]:
        """Of all pods."""
        found = [pod for node in self.nodes for pod in self.pods(node)]
        return [pod["spec"]["containers"][0]["image"] for pod in found]

    def item(self) -> Any:
        """The IngressDaemonSet."""
        return self.kube.get(INGRESSES, self.name, "shop")

    def status(self) -> tuple[int, ...]:
        """Nodes: desired, updated, ready, updating."""
        found = self.item().get("status") or {}
        return tuple(found.get(f"{state}Nodes", -1) for state in ("desired", "updated", "ready", "updating"))

    def condition(self, kind: str) -> Any:
        """One of its conditions."""
        found = (self.item().get("status") or {}).get("conditions") or ()
        return next((each for each in found if each["type"] == kind), {})

    def image(self, image: str) -> None:
        """The template gets another one."""
        template = self.item()["spec"]["template"]
        template["spec"]["containers"][0]["image"] = image
        self.kube.patch(INGRESSES, self.name, {"spec": {"template": template}}, "shop")

    def tick(self, *, agent: bool = True) -> None:
        """What everybody else does meanwhile, one step."""
        asked = [node for node in self.nodes if ASKED in self.marks(node)]
        self.most_asked = max(self.most_asked, len(asked))
        for node in self.nodes:
            if agent:
                self._agent(node)
            self._controller(node)

    def _agent(self, node: str) -> None:
        marks, now = self.marks(node), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        changes: dict[str, str | None] = {}
        if ASKED in marks and OUT not in marks:
            changes = {OUT: now, IN: None}
            self._answered[node] = time.monotonic()
        elif ASKED not in marks and OUT in marks:
            if node in self.ports and self.health(node) != 200:
                return  # only after a good check
            changes = {OUT: None, IN: now}
        if changes:
            merge(self.kube, f"/api/v1/nodes/{node}", {"metadata": {"annotations": changes}})

    def _controller(self, node: str) -> None:
        """One step of the Deployment's: old pods go at once; then new ones come; then each gets Ready."""
        found = self.deployment(node)
        if found is None:
            return
        template, wanted = found["spec"]["template"], found["spec"]["replicas"]
        pods = self.pods(node)
        old = [pod for pod in pods if pod["metadata"]["annotations"]["image"] != _image(template)]
        if old:
            self._judge(node)
            for pod in old:
                self.kube.delete(PODS, pod["metadata"]["name"], "shop")
            pods = []
        elif len(pods) < wanted:
            pods.append(self._pod(found))
        else:
            self._ready(next((pod for pod in pods if not _is_ready(pod)), None))
            pods = self.pods(node)
        status = {
            "observedGeneration": found["metadata"]["generation"],
            "replicas": len(pods),
            "updatedReplicas": len(pods),
            "readyReplicas": sum(map(_is_ready, pods)),
        }
        merge(self.kube, f"/apis/apps/v1/namespaces/shop/deployments/{self.name}-{node}/status", {"status": status})

    def _judge(self, node: str) -> None:
        """Whether its pods may go now."""
        self.replaced.append(node)
        if node in self.ports:
            assert self.health(node) == 503, f"the health port of {node} says yes, and its pods go"
        assert ASKED in self.marks(node), f"{node} isn't detached, and its pods go"
        passed = time.monotonic() - self._answered[node]
        assert passed >= GRACE - 1, (
            f"pods of {node} go {passed:.1f} s after it was out"
        )  # the answer is in whole seconds

    def _pod(self, of: Any) -> Any:
        template = of["spec"]["template"]
        meta = {
            "name": f"{self.name}-{uuid.uuid4().hex[:6]}",
            "labels": template["metadata"]["labels"],
            "annotations": {"image": _image(template)},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        return self.kube.create(PODS, {**pod, "spec": {**pod["spec"], "terminationGracePeriodSeconds": 0}}, "shop")

    def _ready(self, pod: Any) -> None:
        if pod is not None:
            state = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            status = {"status": {"phase": "Running", "conditions": [state]}}
            merge(self.kube, f"/api/v1/namespaces/shop/pods/{pod['metadata']['name']}/status", status)


def _image(template: Any) -> str:
    return str(template["spec"]["containers"][0]["image"])


def _is_ready(pod: Any) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


@contextmanager
def edge(kube: KubeAdapter, rolling: dict[str, Any], count: int = 2, **spec: Any) -> Iterator[Edge]:
    """So many nodes, and an IngressDaemonSet for them; all of it goes with the block."""
    name = f"edge-{uuid.uuid4().hex[:6]}"
    found = Edge(kube, name, [f"{name}-n{number}" for number in range(count)])
    for node in found.nodes:
        kube.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {"ingress": name}}}
        )
        merge(kube, f"/api/v1/nodes/{node}", {"spec": {"taints": None}})  # a new one isn't ready
    kube.create(INGRESSES, manifest(name, rolling, **spec), "shop")
    try:
        yield found
    finally:
        kube.delete(INGRESSES, name, "shop")
        for node in found.nodes:
            for pod in found.pods(node):
                kube.delete(PODS, pod["metadata"]["name"], "shop")
            kube.delete(NODES, node)
        for kind in (DEPLOYMENTS, DAEMON_SETS):  # as the garbage collector does
            for each in kube.list(kind, "shop"):
                if each["metadata"]["name"].startswith(f"{name}-"):
                    kube.delete(kind, each["metadata"]["name"], "shop")


@contextmanager
def checkers(edge_: Edge, folder: Path, kubeconfig: Path) -> Iterator[dict[str, Path]]:
    """A health checker for each node, as the DaemonSet's pods run it but for the port; the log of each."""
    with ExitStack() as stack:
        logs = {node: folder / f"{node}.log" for node in edge_.nodes}
        for node, log in logs.items():
            command = [
                *(sys.executable, "-m", "upgrader.in_cluster.guard", "ingress-health", f"-ingress=shop/{edge_.name}"),
                *("-port=0", f"-kubernetes.config-file={kubeconfig}"),
            ]
            environment = {**os.environ, "NODE_NAME": node}
            output = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
            stack.callback(process.wait)
            stack.callback(process.kill)

        def started() -> bool:
            for node, log in logs.items():
                for line in log.read_text().splitlines():
                    if line.startswith("{") and (found := json.loads(line))["message"] == "started":
                        edge_.ports[node] = found["port"]
            return len(edge_.ports) == len(logs)

        until("health checkers to start", started, timeout_seconds=120, interval_seconds=0.1)
        yield logs
