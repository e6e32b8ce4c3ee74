"""What clusters store, made through real API servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.lab_cluster import OLD, TARGET
from testkit.rehearsed_data import RehearsedData
from testkit.rehearsed_objects import (
    CONFIG_MAPS,
    CRDS,
    SECRET,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    crd,
    create_when_served,
    item,
    key,
    large_pod,
    permit_exec,
    stateful_set_with_max_unavailable,
    usual_objects,
)
from upgrader.adapters.kube import KubeAdapter
from upgrader.ports import Kind

__all__ = ["CONNECTING", "PERMITTED", "SCALES", "STORED", "Scale", "Stored"]

_ADMISSION = "admissionregistration.k8s.io/v1"
_PODS = Kind("v1", "pods")
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
CONNECTING, PERMITTED = "jane", "ann"
"""Users who may connect to pods: only by the verb `get`, and in every version."""
_NOWHERE = {"url": "https://192.0.2.9/"}


@dataclass(frozen=True)
class Stored:
    """`make` creates the objects, at an API server of this version with these flags, and encrypted if `letter` names a
    key.
    """

    make: Callable[[KubeAdapter], None]
    flags: tuple[str, ...] = ()
    version: str = OLD
    letter: str = ""

    def all_flags(self, folder: Path) -> tuple[str, ...]:
        """With that of the file of keys, which is written."""
        if not self.letter:
            return self.flags
        file = RehearsedData(folder).encryption("stored", key(self.letter))
        return (*self.flags, f"--encryption-provider-config={file}")


def _nothing(_: KubeAdapter) -> None:
    """What a new API server makes by itself."""


def _pod_group(kube: KubeAdapter) -> None:
    usual_objects(kube)
    group = "scheduling.k8s.io/v1alpha2"
    made = item(group, "PodGroup", "group", spec={"schedulingPolicy": {"basic": {}}})
    kube.create(Kind(group, "podgroups"), made, "default")


def _old_address(kube: KubeAdapter) -> None:
    usual_objects(kube)
    ports = {"ports": [{"port": 80}], "externalIPs": ["010.20.30.40"]}
    kube.create(SERVICES, item("v1", "Service", "old-address", spec=ports), "default")


def _node_port(kube: KubeAdapter) -> None:
    usual_objects(kube)
    ports = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 32000}]}
    kube.create(SERVICES, item("v1", "Service", "node-port", spec=ports), "default")


def _max_unavailable(kube: KubeAdapter) -> None:
    """With a field that has a feature gate."""
    usual_objects(kube)
    kube.create(STATEFUL_SETS, stateful_set_with_max_unavailable(), "default")


def _secret(kube: KubeAdapter) -> None:
    kube.create(SECRETS, item("v1", "Secret", "web", stringData={"password": SECRET}), "default")


def _ruled(rule: str) -> Callable[[KubeAdapter], None]:
    def make(kube: KubeAdapter) -> None:
        names = {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 20}}
        schema = {"type": "object", "properties": {"names": names}, "x-kubernetes-validations": [{"rule": rule}]}
        kube.create(CRDS, crd("ruleds", schema))
        create_when_served(kube, "ruleds", item("example.com/v1", "Ruled", "one", spec={"names": ["x"]}))

    return make


def _converted(kube: KubeAdapter) -> None:
    webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": _NOWHERE}}
    kube.create(CRDS, crd("converteds", {"type": "object"}, conversion=webhook))


def _webhooks(kube: KubeAdapter) -> None:
    usual_objects(kube)
    remote = {"group": "metrics.k8s.io", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    remote["service"] = {"name": "metrics", "namespace": "default"}
    made = item(
        "apiregistration.k8s.io/v1", "APIService", "v1.metrics.k8s.io", spec={**remote, "insecureSkipTLSVerify": True}
    )
    kube.create(Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False), made)
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    hook = {"name": "all.example.com", "clientConfig": _NOWHERE, "rules": [everything], "sideEffects": "None"}
    hook["admissionReviewVersions"] = ["v1"]
    made = item(_ADMISSION, "ValidatingWebhookConfiguration", "all", webhooks=[hook])
    kube.create(Kind(_ADMISSION, "validatingwebhookconfigurations", namespaced=False), made)


def _policy(kube: KubeAdapter, name: str, rule: Mapping[str, Any], expression: str) -> None:
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    made = item(_ADMISSION, "ValidatingAdmissionPolicy", name, spec=spec)
    kube.create(Kind(_ADMISSION, "validatingadmissionpolicies", namespaced=False), made)
    made = item(
        _ADMISSION, "ValidatingAdmissionPolicyBinding", name, spec={"policyName": name, "validationActions": ["Deny"]}
    )
    kube.create(Kind(_ADMISSION, "validatingadmissionpolicybindings", namespaced=False), made)


def _refused_today(kube: KubeAdapter) -> None:
    usual_objects(kube)
    rule = {"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["plains"]}
    _policy(kube, "refuses", rule, "false")


def _policies(kube: KubeAdapter) -> None:
    usual_objects(kube)
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"],
    }
    _policy(kube, "few-replicas", rule, "object.spec.replicas < 100")
    _ruled("!has(self.names) || self.names.all(name, name.size() > 0)")(kube)
    labels = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"}
    kube.create(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}})
    quota = item("v1", "ResourceQuota", "all", spec={"hard": {"pods": "50", "count/configmaps": "50"}})
    kube.create(Kind("v1", "resourcequotas"), quota, "shop")
    limits = {"limits": [{"type": "Container", "default": {"memory": "64Mi"}, "defaultRequest": {"memory": "16Mi"}}]}
    kube.create(Kind("v1", "limitranges"), item("v1", "LimitRange", "all", spec=limits), "shop")
    pod = item("v1", "Pod", "web", spec={"containers": [{"name": "web", "image": "example.com/web:1"}]})
    kube.create(_PODS, pod, "shop")


def _connections(kube: KubeAdapter) -> None:
    permit_exec(kube, CONNECTING, "get")
    permit_exec(kube, PERMITTED, "get", "create")


@dataclass(frozen=True)
class Scale:
    """How many objects: for each ReplicaSet, so many pods that it owns, and so many ConfigMaps of a kilobyte."""

    count: int
    pods: int
    config_maps: int
    large: bool = False
    """Whether the pods are as large as many are (9 kB), and not small ones with one container."""

    def __str__(self) -> str:
        kind = "pods of two containers (9 kB)" if self.large else "pods"
        return f"for each ReplicaSet, {self.pods} {kind} and {self.config_maps} ConfigMaps"


def _many(scale: Scale) -> Callable[[KubeAdapter], None]:
    containers = [{"name": "web", "image": "example.com/web:1", "env": [{"name": "A", "value": "b" * 100}]}]

    def make(kube: KubeAdapter) -> None:
        def group(number: int) -> None:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
            owner |= {"name": f"web-{number}", "uid": f"00000000-0000-0000-0000-{number:012}"}
            for each in range(scale.pods):
                name = f"web-{number}-{each}"
                pod = large_pod(name) if scale.large else item("v1", "Pod", name, spec={"containers": containers})
                pod["metadata"]["ownerReferences"] = [owner]
                kube.create(_PODS, pod, "default")
            for each in range(scale.config_maps):
                made = item("v1", "ConfigMap", f"web-{number}-{each}", data={"a": "b" * 1000})
                kube.create(CONFIG_MAPS, made, "default")

        with ThreadPoolExecutor(4) as pool:
            for _ in pool.map(group, range(scale.count // (scale.pods + scale.config_maps))):
                pass

    return make


SCALES: Mapping[str, Scale] = {
    "2,000 objects": Scale(2_000, 10, 10),
    "10,000 objects": Scale(10_000, 10, 10),
    "120,000 objects": Scale(120_000, 10, 2),
    "12,000 objects, large pods": Scale(12_000, 10, 2, large=True),
    "120,000 objects, large pods": Scale(120_000, 10, 2, large=True),
}
"""Those whose rehearsals are measured."""

STORED: Mapping[str, Stored] = {
    "usual": Stored(usual_objects),
    "max unavailable": Stored(_max_unavailable, version=TARGET),
    "empty": Stored(_nothing),
    "removed API": Stored(
        _pod_group, ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    ),
    "old address": Stored(_old_address, ("--feature-gates=StrictIPCIDRValidation=false",)),
    "node port": Stored(_node_port),
    "encrypted": Stored(_secret, letter="a"),
    "new rule": Stored(
        _ruled("!has(self.names) || !self.names.includes('y')"), ("--min-compatibility-version=1.37",), TARGET
    ),
    "converted": Stored(_converted),
    "refused today": Stored(_refused_today),
    "webhooks": Stored(_webhooks),
    "policies and quotas": Stored(_policies),
    "connections to pods": Stored(_connections),
    **{name: Stored(_many(scale)) for name, scale in SCALES.items()},
}
