"""Other clients that change a cluster during a run, and a network that is lost.

Each has a field manager of its own, as its real counterpart does, so that tests can check a run's report of it.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from testkit.api_load import access_of
from testkit.lab_cluster import LabCluster
from upgrader.errors import ApiError
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind

__all__ = ["EDITOR", "GITOPS", "MIRROR", "SIDECAR", "Other", "Reverts", "cut_off", "mutating", "reverting"]

EDITOR = "kubectl-edit"
GITOPS = "argocd-controller"

SIDECAR = f"""Object{{spec: Object.spec{{containers: [Object.spec.containers{{
  name: "mesh", image: "registry.k8s.io/pause:{IMAGE_VERSIONS["pause"]}", imagePullPolicy: "IfNotPresent"}}]}}}}"""
MIRROR = """Object{spec: Object.spec{containers: object.spec.containers.map(each, Object.spec.containers{
  name: each.name, image: each.image.replace("registry.k8s.io/", "mirror.example/")})}}"""
"""What a policy engine makes of each pod of kube-system: one more container; images from a mirror."""

_POLICIES = Kind("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", namespaced=False)
_BINDINGS = Kind("admissionregistration.k8s.io/v1", "mutatingadmissionpolicybindings", namespaced=False)
_SECONDS = 10.0
_APPLY = "application/apply-patch+yaml"


class Other:
    """A client of the API with its own field manager, for one workload: `deployments/kube-apiserver`, say."""

    def __init__(self, kubeconfig: Path, manager: str, namespace: str, workload: str) -> None:
        self._access = access_of(kubeconfig)
        self._query = {"fieldManager": manager}
        self._path = f"/apis/apps/v1/namespaces/{namespace}/{workload}"

    def get(self) -> dict[str, Any]:
        """The present workload; raises ApiError."""
        return self._send("GET", {})

    def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply, by force."""
        return self._send("PATCH", {**self._query, "force": "true"}, manifest, _APPLY)

    def replace(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The whole object, as an editor saves it."""
        return self._send("PUT", self._query, manifest, "application/json")

    def _send(
        self, method: str, query: Mapping[str, str], body: Mapping[str, Any] | None = None, content: str = ""
    ) -> dict[str, Any]:
        connection = self._access.connect(_SECONDS)
        headers = {**self._access.headers, **({"Content-Type": content} if content else {})}
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, f"{self._path}?{urlencode(query)}", text, headers)
            answer = connection.getresponse()
            found: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(f"{method} {self._path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise ApiError(f"{method} {self._path}: {found.get('message')}")
        return found


@dataclass
class Reverts:
    """How often a GitOps controller found the workload changed, and changed it back."""

    number: int = 0
    problems: list[str] = field(default_factory=list)


@contextmanager
def reverting(
    kubeconfig: Path, workload: str, namespace: str = "kube-system", *, every_seconds: float = 2.0
) -> Iterator[Reverts]:
    """A GitOps controller that has the present workload in Git, and applies it every two seconds while this lasts."""
    client = Other(kubeconfig, GITOPS, namespace, workload)
    wanted = _declared(client.get())
    done, over = Reverts(), threading.Event()
    known = client.apply(wanted)["metadata"]["generation"]

    def work() -> None:
        nonlocal known
        while not over.wait(every_seconds):
            try:
                seen = client.get()["metadata"]["generation"]
                now = client.apply(wanted)["metadata"]["generation"]
            except ApiError as error:  # the API is being replaced: a controller asks again
                done.problems.append(str(error))
                continue
            done.number += now not in (known, seen)
            known = now

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def _declared(found: Mapping[str, Any]) -> dict[str, Any]:
    """An object as it may be in Git: without what the API server and controllers add to it."""
    meta = {key: found["metadata"][key] for key in ("name", "namespace", "labels") if key in found["metadata"]}
    return {"apiVersion": "apps/v1", "kind": found["kind"], "metadata": meta, "spec": found["spec"]}


@contextmanager
def cut_off(cluster: LabCluster) -> Iterator[None]:
    """A VPN that has dropped: no packet of this machine reaches the lab while this lasts. Needs root."""
    rule = ["OUTPUT", "--destination", Lab.find(cluster.name).placement.network, "--jump", "DROP"]
    subprocess.run(["iptables", "--insert", *rule], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "--delete", *rule], check=True, capture_output=True)


@contextmanager
def mutating(cluster: LabCluster, expression: str) -> Iterator[None]:
    """A policy engine that changes each new pod of kube-system, but for the API's copies of static pods."""
    group, name = _POLICIES.api_version, "policy-engine"
    policy = {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        },
        "matchConditions": [
            {
                "name": "no-mirror-pod",
                "expression": "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))",
            }
        ],
        "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    meta = {"apiVersion": group, "metadata": {"name": name}}
    cluster.kube.create(_POLICIES, {**meta, "kind": "MutatingAdmissionPolicy", "spec": policy})
    cluster.kube.create(_BINDINGS, {**meta, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}})
    try:
        yield
    finally:
        cluster.kube.delete(_BINDINGS, name)
        cluster.kube.delete(_POLICIES, name)
