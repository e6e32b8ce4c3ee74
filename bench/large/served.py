"""An API server's answers for a cluster of some size, from memory: what the runner reads there takes as much as it
would from a real one, as each object has all that kubelets and controllers write.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.model.node_mark import NodeMark
from upgrader.ports import Kind, KubeObject

__all__ = ["CONTROLLER", "NEW_IMAGE", "NEW_KUBELET", "cluster_of", "kubeconfig_of", "pods_of", "served"]

CONTROLLER = "controller-1"
NEW_IMAGE = "registry.example/kube-proxy:v1.37.1"
"""What no node has yet."""
NEW_KUBELET = "v1.37.1"

_IMAGES = 50
"""As many as a kubelet reports."""
_PODS_ON_NODE = 10
_SYSTEM = "kube-system"
_NODES = Kind("v1", "nodes", namespaced=False)
_PODS = Kind("v1", "pods")
_LEASES = Kind("coordination.k8s.io/v1", "leases")
_DAEMON_SETS, _REVISIONS = Kind("apps/v1", "daemonsets"), Kind("apps/v1", "controllerrevisions")
_SET = {"uid": "a-set", "kind": "ReplicaSet", "name": "service", "controller": True}
_WHEN = "2026-01-01T00:00:00Z"
_METRICS = 40_000
"""Lines of kube-apiserver's `/metrics`: some megabytes, as of a cluster with many kinds of objects."""


class _Cluster(FakeKube):
    """Kubelets pull at once what a new pod asks for, and are of the new version once their node's mark says `swap`."""

    reads_a_beat = 1
    """They renew their Leases at every so manieth read of a Lease, as they do every ten seconds."""
    _reads = 0

    def _renew(self, kind: Kind) -> None:
        self._reads += kind.plural == "leases"
        if self._reads % self.reads_a_beat == 0:
            super()._renew(kind)

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        found = super().patch(kind, name, changes, namespace, subresource=subresource)
        mark = NodeMark.of(found) if kind.plural == "nodes" else None
        if mark is not None and mark.phase == "swap":
            info = {**found["status"]["nodeInfo"], "kubeletVersion": NEW_KUBELET}
            self.put(kind, {**found, "status": {**found["status"], "nodeInfo": info}})
        return found

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        if "name" not in manifest.get("metadata", {}):  # a review: whoever asks may do everything
            return {**manifest, "status": {"allowed": True}}
        made = super().create(kind, manifest, namespace, dry_run=dry_run)
        if kind != _PODS or dry_run:
            return made
        statuses = [_pulled(item["name"], item["image"]) for item in manifest["spec"]["containers"]]
        status = {"phase": "Pending", "containerStatuses": statuses}
        self.put(kind, {**made, "status": status}, namespace)
        return {**made, "status": status}


def cluster_of(nodes: int, *, metrics: int = _METRICS, reads_a_beat: int = 1) -> FakeKube:
    """One controller, and so many workers with ten pods each, of which one is a kube-proxy."""
    kube = _Cluster()
    kube.reads_a_beat = reads_a_beat
    kube.silent_kubelets = set()
    kube.raw_answers |= {
        "/version": json.dumps({"gitVersion": "v1.36.3"}),
        "/readyz": "ok",
        "/metrics": _metrics(metrics),
    }
    kube.put(Kind("v1", "namespaces", namespaced=False), {"metadata": {"name": _SYSTEM}})
    kube.put(Kind("v1", "serviceaccounts"), {"metadata": {"name": "default"}}, _SYSTEM)
    labels = {"app.kubernetes.io/name": "kube-proxy"}
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady")
    kube.put(
        _DAEMON_SETS,
        {
            "metadata": {"name": "kube-proxy", "namespace": _SYSTEM, "uid": "kube-proxy-uid", "generation": 1},
            "spec": {"selector": {"matchLabels": labels}, "updateStrategy": {"type": "RollingUpdate"}},
            "status": {**dict.fromkeys(counts, nodes + 1), "numberAvailable": nodes + 1, "observedGeneration": 1},
        },
    )
    server = {"app.kubernetes.io/name": "kube-apiserver"}
    instance = _pod("kube-apiserver-1", _SYSTEM, CONTROLLER, server, {"uid": "a-set"})
    instance["spec"]["containers"][0]["name"] = instance["status"]["containerStatuses"][0]["name"] = "kube-apiserver"
    kube.put(_PODS, instance)
    owner = {"uid": "kube-proxy-uid", "kind": "DaemonSet", "name": "kube-proxy", "controller": True}
    meta: dict[str, Any] = {"name": "kube-proxy-1", "namespace": _SYSTEM, "ownerReferences": [owner]}
    revision = {**meta, "labels": {**labels, "controller-revision-hash": "hash-1"}}
    kube.put(_REVISIONS, {"metadata": revision, "revision": 1})
    for name in (CONTROLLER, *(f"worker-{number:04}.example" for number in range(nodes))):
        kube.put(_NODES, _node(name))
        spec = {"holderIdentity": name, "renewTime": "2026-01-01T00:00:00+00:00", "leaseDurationSeconds": 40}
        kube.put(_LEASES, {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec})
        proxy = {**labels, "controller-revision-hash": "hash-1"}
        kube.put(_PODS, _pod(f"kube-proxy-{name}", _SYSTEM, name, proxy, owner))
        for number in range(1, _PODS_ON_NODE):
            kube.put(_PODS, _pod(f"service-{number}-{name}", "team", name, {"app": "service"}, _SET))
    return kube


def pods_of(nodes: int) -> int:
    """How many pods the cluster has: those of its nodes, and the controller's."""
    return (nodes + 1) * _PODS_ON_NODE + 1


def kubeconfig_of(url: str) -> dict[str, Any]:
    """A kubeconfig that leads there."""
    return {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "it", "user": {"token": "it"}}],
    }


@contextmanager
def served(kube: FakeKube) -> Iterator[str]:
    """The URL at which it is served while the context is open."""
    pages: dict[str, list[Any]] = {}
    tokens, lock = count(1), threading.Lock()

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing."""

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                with lock:
                    found = self._answer(json.loads(body) if body else {})
                self._reply(200, found if isinstance(found, str) else json.dumps(found, separators=(",", ":")))
            except ApiError as error:
                status = error.status or 503
                self._reply(status, json.dumps({"kind": "Status", "status": "Failure", "message": error.message}))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815

        def _reply(self, status: int, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _answer(self, body: dict[str, Any]) -> str | dict[str, Any]:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            place = _place(url.path)
            if place is None:
                return kube.raw(url.path)
            kind, namespace, name = place
            if url.path.endswith("/eviction"):
                kube.evict(name, namespace, uid=body["deleteOptions"]["preconditions"]["uid"])
                return {"kind": "Status", "status": "Success"}
            if self.command == "POST":
                return _named(kube.create(kind, body, namespace, dry_run="dryRun" in query))
            if self.command == "PATCH":
                apply = "apply-patch" in self.headers["Content-Type"]
                return _named(kube.apply(kind, body, namespace) if apply else kube.patch(kind, name, body, namespace))
            if self.command == "PUT":
                return _named(kube.replace(kind, body, namespace))
            if self.command == "DELETE":
                kube.delete(kind, name, namespace)
                return {"kind": "Status", "status": "Success"}
            if not name:
                return self._page(kind, namespace, query)
            found = kube.get(kind, name, namespace)
            if found is None:
                error = ApiError(f"{kind.plural} {name} not found")
                error.status = 404
                raise error
            return _named(found)

        def _page(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> dict[str, Any]:
            labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
            token = query.get("continue", "")
            left = pages.pop(token) if token else list(kube.list(kind, namespace, labels=labels, fields=fields))
            size = int(query.get("limit", len(left)))
            items, rest = left[:size], left[size:]
            meta: dict[str, Any] = {"resourceVersion": "1"}
            if rest:
                meta["continue"] = str(next(tokens))
                pages[meta["continue"]] = rest
                if not labels and not fields:
                    meta["remainingItemCount"] = len(rest)
            if "PartialObjectMetadata" in self.headers.get("Accept", ""):
                items = [{"metadata": item["metadata"]} for item in items]
            return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _place(path: str) -> tuple[Kind, str, str] | None:
    """Kind, namespace and name ("" for none) of a path; None where it is that of no object."""
    parts = path.strip("/").split("/")
    group = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    if len(parts) <= group:
        return None
    api_version, rest, namespace = "/".join(parts[1:group]), parts[group:], ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return Kind(api_version, rest[0]), namespace, rest[1] if len(rest) > 1 else ""


def _named(found: KubeObject) -> dict[str, Any]:
    return {"kind": "Object", **found}


def _pulled(name: str, image: str) -> dict[str, Any]:
    terminated = {"reason": "StartError", "exitCode": 128}
    image_id = f"{image.partition(':')[0]}@sha256:{'a' * 64}"
    return {"name": name, "image": image, "imageID": image_id, "state": {"terminated": terminated}}


def _node(name: str) -> dict[str, Any]:
    quantities = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-1Gi": "0",
                  "hugepages-2Mi": "0"}  # fmt: skip
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": f"Kubelet{kind}",
         "message": f"kubelet is posting that {kind} is as it should be", "lastHeartbeatTime": _WHEN,
         "lastTransitionTime": _WHEN}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready")
    ]  # fmt: skip
    info = ("bootID", "machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion")
    labels = {f"topology.example/label-{number}": f"{name}-{number}" for number in range(12)}
    meta = {
        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
        "annotations": {f"network.example/annotation-{number}": "x" * 40 for number in range(6)},
    }
    status = {
        "addresses": [{"type": "InternalIP", "address": "12.0.0.1"}, {"type": "Hostname", "address": name}],
        "capacity": quantities,
        "allocatable": quantities,
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {**dict.fromkeys(info, f"{name}-info"), "kubeletVersion": "v1.36.3", "architecture": "amd64"},
        "images": [
            {"names": [f"registry.example/team/service-{number:02}@sha256:{number:064x}",
                       f"registry.example/team/service-{number:02}:v1.2.{number}"], "sizeBytes": 50_000_000}
            for number in range(_IMAGES)
        ],
    }  # fmt: skip
    written = {"metadata": meta, "status": {**status, "images": {}}}
    return {
        "metadata": {"name": name, **meta, "managedFields": [_writer("kubelet", written, "status")]},
        "spec": {"podCIDR": "11.0.0.0/24", "podCIDRs": ["11.0.0.0/24"]},
        "status": status,
    }


def _pod(
    name: str, namespace: str, node: str, labels: Mapping[str, str], owner: Mapping[str, object]
) -> dict[str, Any]:
    volumes = [{"name": f"volume-{number}", "configMap": {"name": f"map-{number}"}} for number in range(4)]
    mounts = [{"name": item["name"], "mountPath": f"/etc/{item['name']}", "readOnly": True} for item in volumes]
    container = {
        "name": "main",
        "image": "registry.example/kube-proxy:v1.36.3",
        "command": ["/usr/local/bin/program", "--config=/etc/config", f"--node={node}"],
        "env": [{"name": f"VARIABLE_{number}", "value": "x" * 30} for number in range(8)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": mounts,
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 10256, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    seconds = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    spec = {
        "nodeName": node,
        "containers": [container],
        "volumes": volumes,
        "tolerations": [{"key": f"node.kubernetes.io/taint-{number}", **seconds} for number in range(6)],
        "priorityClassName": "system-node-critical" if namespace == _SYSTEM else "",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
    }
    started = {"running": {"startedAt": _WHEN}}
    image_id = f"registry.example/kube-proxy@sha256:{'a' * 64}"
    status = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _WHEN}
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "hostIP": "127.0.0.1",
        "podIP": "11.0.0.2",
        "containerStatuses": [
            {"name": "main", "ready": True, "restartCount": 0, "state": started, "lastState": {}, "started": True,
             "image": "registry.example/kube-proxy:v1.36.3", "imageID": image_id}
        ],
    }  # fmt: skip
    meta = {"labels": dict(labels), "ownerReferences": [dict(owner)]}
    writers = [_writer("kube-controller-manager", {"metadata": meta, "spec": spec}),
               _writer("kubelet", {"status": status}, "status")]  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": namespace, **meta, "managedFields": writers},
        "spec": spec,
        "status": status,
    }


def _writer(manager: str, written: object, subresource: str = "") -> dict[str, Any]:
    """An entry of `managedFields`: whoever wrote this."""
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _WHEN, "fieldsType": "FieldsV1"}
    return {**entry, **({"subresource": subresource} if subresource else {}), "fieldsV1": _fields(written)}


def _fields(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return {f"f:{key}": _fields(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        key = "type" if "type" in value[0] else "name" if "name" in value[0] else "key"
        return {f'k:{{"{key}":"{each.get(key)}"}}': {".": {}, **_fields(each)} for each in value}
    return {}


def _metrics(lines: int) -> str:
    found = [
        f'apiserver_request_duration_seconds_bucket{{component="apiserver",dry_run="",group="apps",'
        f'resource="kind-{number // 200}",scope="cluster",subresource="",verb="LIST",version="v1",'
        f'le="{number % 200}"}} 7'
        for number in range(lines)
    ]
    return "\n".join(["process_start_time_seconds 1.7e9", *found, ""])
