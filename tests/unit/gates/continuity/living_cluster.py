"""A cluster in which everything works that the continuity gates compare, until a test breaks it."""

from __future__ import annotations

import base64
import json
from typing import Any

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import NAMESPACE, add_daemonset, add_deployment, add_pod
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import (
    API_SERVICES,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_CIDRS,
    SERVICES,
    WORKLOADS,
)
from upgrader.ports import Kind, KubeObject

__all__ = ["CONTROLLERS", "SERVERS", "SIGNED", "LivingKube", "metrics", "refusal"]

CONTROLLERS = ("controller-1", "controller-2")
SERVERS = ("https://10.0.0.11:6443", "https://10.0.0.12:6443")
GROUPS = ("apps/v1", "apiregistration.k8s.io/v1", "autoscaling/v2", "metrics.k8s.io/v1beta1", "widgets.example.com/v1")

SIGNED = "signed-by-kube-controller-manager"
"""The token in a new Secret for one."""
_TEST = "upgrader-continuity-"


class LivingKube(FakeKube):
    """The fake, with controllers that renew Leases and roll out the test's Deployment, and a count of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.refused: dict[str, ApiError] = {}
        """Beginning of a request, such as `list secrets` → what it is refused with."""
        self.rolls_out = True
        """Whether a new Deployment gets a pod."""
        self.signs = True
        """Whether a Secret for a token gets one."""
        self.knows_the_key = True
        """Whether the API accepts it."""
        self.renews = True
        """Whether the Leases are renewed."""
        self._renewals = 0
        self.serve()
        for server in ("", *SERVERS):
            self.raw_answers[f"{server}/readyz"] = "ok"
            self.raw_answers[f"{server}/api"] = "{}"
            self.raw_answers[f"{server}/metrics"] = metrics()
        self._fill()

    def serve(self, version: str = "v1.36.3", *, without: tuple[str, ...] = (), server: str = "") -> None:
        """Serve all of `GROUPS` but these, at this version."""
        names = {name.partition("/")[0] for name in GROUPS}
        groups = [
            {
                "versions": [
                    {"groupVersion": item} for item in GROUPS if item.startswith(f"{name}/") and item not in without
                ]
            }
            for name in sorted(names)
        ]
        for at in (server,) if server else ("", *SERVERS):
            self.raw_answers[f"{at}/apis"] = json.dumps({"groups": groups})
            self.raw_answers[f"{at}/version"] = json.dumps({"gitVersion": version})

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        if kind == LEASES and self.renews:
            self._renewals += 1
            self._lease(name)
        return super().get(kind, name, namespace)

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        made = super().create(kind, manifest, namespace, dry_run=dry_run)
        if kind == SECRETS and manifest.get("type") == "kubernetes.io/service-account-token" and self.signs:
            token = base64.b64encode(SIGNED.encode()).decode()
            self.put(kind, {**made, "data": {"token": token}})
        return made

    def apply(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        made = super().apply(kind, manifest, namespace)
        name = str(manifest["metadata"]["name"])
        if kind == WORKLOADS["Deployment"] and name.startswith(_TEST) and self.rolls_out:
            found = dict(made)
            add_deployment(self, name)
            add_pod(self, name)
            kept = {**self._at(kind, name), "spec": {**found["spec"], "selector": {"matchLabels": {"app": name}}}}
            self.put(kind, kept)
            self.endpoint(name, ready=True)
        return made

    def delete(self, kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        super().delete(kind, name, namespace, at_once=at_once)
        if kind == WORKLOADS["Deployment"] and name.startswith(_TEST):
            super().delete(PODS, f"{name}-1-controller-1", NAMESPACE)
            self.endpoint(name, ready=False)

    def _token_lives(self, token: str) -> bool:
        return self.knows_the_key if token == SIGNED else super()._token_lives(token)

    def endpoint(self, name: str, *, ready: bool) -> None:
        """What the Service's EndpointSlice says of the pod."""
        meta = {"name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": name}}
        self.put(ENDPOINT_SLICES, {"metadata": meta, "endpoints": [{"conditions": {"ready": ready}}]})

    def _at(self, kind: Kind, name: str) -> dict[str, Any]:
        found = super().get(kind, name, NAMESPACE)
        assert found is not None
        return dict(found)

    def _check(self, what: str) -> None:
        self.requests += 1
        super()._check(what)
        for beginning, error in self.refused.items():
            if what.startswith(beginning):
                raise error

    def _lease(self, name: str) -> None:
        spec = {"holderIdentity": "controller-1_8d2f", "renewTime": f"2026-01-01T00:00:{self._renewals:02}.000000Z"}
        self.put(LEASES, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    def _fill(self) -> None:
        for name in ("kube-controller-manager", "kube-scheduler"):
            self._lease(name)
            add_pod(self, name)
        for address in ("10.0.0.11", "10.0.0.12"):
            self.instance(address)
        template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "i:1"}]}}
        add_daemonset(self, "pod-checkpointer")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"):
            add_deployment(self, name)
        for kind, release, name in (
            ("DaemonSet", "pod-checkpointer", "pod-checkpointer"),
            ("Deployment", "kube-apiserver", "kube-apiserver"),
            ("Deployment", "kubernetes", "kube-controller-manager"),
            ("Deployment", "kubernetes", "kube-scheduler"),
            ("Deployment", "kubernetes", "coredns"),
        ):
            found = self._at(WORKLOADS[kind], name)  # type: ignore[index]
            found["metadata"]["annotations"] = {"meta.helm.sh/release-name": release}
            found["spec"]["template"] = template
            self.put(WORKLOADS[kind], found)  # type: ignore[index]
        for name in ("v1.apps", "v1beta1.metrics.k8s.io"):
            self.api_service(name, available=True)
        self.put(NODES, {"metadata": {"name": "controller-1"}})
        for number in range(20):
            self.put(CONFIG_MAPS, {"metadata": {"name": f"map-{number}", "namespace": "default"}})
        service = {"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.1"}}
        self.put(SERVICES, service)
        self.service_range("True")

    def instance(self, address: str, *flags: str, cpu_limit: str = "") -> None:
        """A Ready pod of kube-apiserver."""
        name = add_pod(self, "kube-apiserver", name=f"kube-apiserver-{address}")
        found = self._at(PODS, name)
        found["status"]["hostIP"] = address
        found["spec"]["containers"] = [{"name": "kube-apiserver", "args": list(flags)}, {"name": "haproxy"}]
        if cpu_limit:
            found["spec"]["containers"][0]["resources"] = {"limits": {"cpu": cpu_limit}}
        self.put(PODS, found)

    def api_service(self, name: str, *, available: bool, reason: str = "Why") -> None:
        """An APIService."""
        condition = {"type": "Available", "status": str(available), "reason": reason, "message": "because"}
        version, _, group = name.partition(".")
        spec = {} if "." not in group else {"service": {"namespace": "default", "name": "backend"}}
        self.raw_answers.setdefault(f"/apis/{group}/{version}?timeout=6s", "{}")
        self.put(API_SERVICES, {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [condition]}})

    def service_range(self, ready: str) -> None:
        """The ServiceCIDR that kube-apiserver made."""
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        cidr = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12"]}, "status": status}
        self.put(SERVICE_CIDRS, cidr)


def refusal(status: int, message: str = "no") -> ApiError:
    """An answer of the API that refuses."""
    error = ApiError(message)
    error.status = status
    return error


def metrics(
    *,
    start: str = "1.7e9",
    requests: int = 1000,
    seconds: float = 0.1,
    slow: int = 0,
    c403: int = 0,
    unauthenticated: int = 0,
    rejected: int = 0,
    queued: int = 0,
    seats: int = 608,
    terminated: int = 0,
    denied: int = 0,
    by: str = "hold-scale.guard.guard.upgrader.io",
    cpu: float = 0.0,
) -> str:
    """kube-apiserver's metrics after so many requests, each within `seconds`; `slow` ones took 8 s.

    `c403`: how many lists of Secrets were forbidden. `queued`: how many requests wait for a seat now, of `seats` in two
    priority levels; without any, there is no API Priority and Fairness. `terminated`: how many requests were rejected
    by whatever limits them.
    `denied`: how many scales of StatefulSets the webhook `by` denied. `cpu`: how many seconds of CPU it has used.
    """
    lines = [
        "# HELP apiserver_request_total Counter of apiserver requests",
        f'apiserver_request_total{{code="200",resource="pods",verb="LIST"}} {requests}',
        f"process_start_time_seconds {start}",
        f"process_cpu_seconds_total {cpu}",
        f'authentication_attempts{{result="success"}} {requests}',
        f'authentication_attempts{{result="failure"}} {unauthenticated}',
        f'apiserver_flowcontrol_rejected_requests_total{{priority_level="workload-low"}} {rejected}',
        'apiserver_flowcontrol_current_inqueue_requests{flow_schema="probes",priority_level="exempt"} 0',
        f'apiserver_flowcontrol_current_inqueue_requests{{priority_level="workload-low"}} {queued}',
        f'apiserver_request_duration_seconds_bucket{{verb="LIST",le="{seconds}"}} {requests - slow}',
        f'apiserver_request_duration_seconds_bucket{{verb="LIST",le="8"}} {requests}',
        f'apiserver_request_duration_seconds_bucket{{verb="LIST",le="+Inf"}} {requests}',
        f'apiserver_request_duration_seconds_bucket{{verb="WATCH",le="+Inf"}} {requests}',
    ]
    lines.append(f'apiserver_request_total{{code="403",resource="secrets",verb="LIST"}} {c403}')
    if seats:
        levels = {"workload-low": seats - seats // 3, "jobs": seats // 3}
        lines += [
            f'apiserver_flowcontrol_nominal_limit_seats{{priority_level="{name}"}} {n}' for name, n in levels.items()
        ]
    if terminated:
        lines.append(f'apiserver_request_terminations_total{{code="429",resource="pods",verb="LIST"}} {terminated}')
        lines.append('apiserver_request_terminations_total{code="504",resource="pods",verb="LIST"} 1000')
    if denied:
        labels = f'error_type="no_error",name="{by}",operation="UPDATE",rejection_code="403",type="validating"'
        lines.append(f'apiserver_request_total{{code="403",resource="statefulsets",verb="PATCH"}} {denied}')
        lines.append(f"apiserver_admission_webhook_rejection_count{{{labels}}} {denied}")
    return "\n".join(lines) + "\n"
