"""The clusters that are rehearsed: what each stores, with which change, and what a rehearsal has to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bench.rehearsal.stored import CONNECTING, PERMITTED, SCALES, STORED
from testkit.lab_cluster import OLD, TARGET
from testkit.rehearsed_data import RehearsedData
from testkit.rehearsed_objects import key
from upgrader.model.audit_log import Requests
from upgrader.steps.rehearsal.client_requests import NO_REQUESTS, ClientRequests
from upgrader.steps.rehearsal.servers import Server

__all__ = ["CASES", "MEASURED", "Case"]

Servers = tuple[Server, Server]
"""The running one, and the target."""

_POD_SECURITY = """apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: restricted, enforce-version: latest}
"""
_IMAGE_POLICY = """apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ImagePolicyWebhook
  configuration:
    imagePolicy: {kubeConfigFile: %s, allowTTL: 50, denyTTL: 50, retryBackoff: 500, defaultAllow: false}
"""
_BACKEND = """apiVersion: v1
kind: Config
clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1/'}}]
users: [{name: x, user: {}}]
contexts: [{name: x, context: {cluster: x, user: x}}]
current-context: x
"""


@dataclass(frozen=True)
class Case:
    """One cluster and one change. `stored`: a name of `STORED`. `expected`: finding and resource, all of which have to
    be found; none for a cluster without a mistake, of which nothing but information may be found. `requests`: what its
    audit log has.
    """

    about: str
    stored: str
    expected: tuple[tuple[str, str], ...] = ()
    servers: Callable[[RehearsedData], Servers] | None = None
    requests: ClientRequests = NO_REQUESTS

    def both(self, site: RehearsedData) -> Servers:
        """The servers, which otherwise are both versions with the flags that the data was stored with."""
        if self.servers is not None:
            return self.servers(site)
        flags = STORED[self.stored].flags
        return site.server(OLD, *flags), site.server(TARGET, *flags)


def _target(*flags: str) -> Callable[[RehearsedData], Servers]:
    return lambda site: (site.server(OLD), site.server(TARGET, *flags))


def _admission(plugin: str, text: str) -> Callable[[RehearsedData], Servers]:
    def servers(site: RehearsedData) -> Servers:
        backend, file = site.folder / "backend.yaml", site.folder / f"{plugin}.yaml"
        backend.write_text(_BACKEND)
        file.write_text(text.replace("%s", str(backend)))
        flags = (f"--enable-admission-plugins={plugin}", f"--admission-control-config-file={file}")
        return site.server(OLD), site.server(TARGET, *flags)

    return servers


def _other_issuer(site: RehearsedData) -> Servers:
    target = site.server(TARGET)
    flags = (flag.replace("https://issuer.example", "https://other.example") for flag in target.flags)
    return site.server(OLD), replace(target, flags=tuple(flags))


def _keys(old: str, new: str) -> Callable[[RehearsedData], Servers]:
    def servers(site: RehearsedData) -> Servers:
        files = site.encryption("old", old), site.encryption("new", new)
        return site.server(OLD, encryption=files[0]), site.server(TARGET, encryption=files[1])

    return servers


_KMS = "{kms: {apiVersion: v2, name: k, endpoint: 'unix:///run/kms.sock'}}"
_NEW_CEL = STORED["new rule"].flags
_UNTIL_1_34 = "--feature-gates=AuthorizePodWebsocketUpgradeCreatePermission=false"
_CONNECTS = tuple(
    Requests(user, "python", "v1", "pods/exec", ("get",), 1, "", (), ("default",)) for user in (CONNECTING, PERMITTED)
)
"""Through a WebSocket."""
_LISTS = Requests("jane", "kubectl", "scheduling.k8s.io/v1alpha2", "podgroups", ("list",), 1, "")

CASES: Mapping[str, Case] = {
    "removed API": Case(
        "objects of `scheduling.k8s.io/v1alpha2`, which the target doesn't serve",
        "removed API",
        (("rehearsal.gone", "podgroups.scheduling.k8s.io"),),
        lambda site: (site.server(OLD, *STORED["removed API"].flags), site.server(TARGET)),
    ),
    "client of a removed API": Case(
        "a client in the audit log that lists the same; none are stored",
        "usual",
        (("rehearsal.client", f"{_LISTS.api_version} {_LISTS.resource} list"),),
        lambda site: (site.server(OLD, *STORED["removed API"].flags), site.server(TARGET)),
        ClientRequests((_LISTS,)),
    ),
    "no apps/v1": Case(
        "`--runtime-config=apps/v1=false`",
        "usual",
        (("rehearsal.gone", "deployments.apps"),),
        _target("--runtime-config=apps/v1=false"),
    ),
    "no autoscaling/v2": Case(
        "`--runtime-config=autoscaling/v2=false`, where the API has another version",
        "usual",
        (("rehearsal.version", "horizontalpodautoscalers.autoscaling"),),
        _target("--runtime-config=autoscaling/v2=false"),
    ),
    "stricter validation": Case(
        "a Service whose address has leading zeros, which the target rejects",
        "old address",
        (("rehearsal.create", "services"),),
        lambda site: (site.server(OLD, *STORED["old address"].flags), site.server(TARGET)),
    ),
    "rule that does not compile": Case(
        "a CustomResourceDefinition with a function of CEL that the target (the older version) doesn't have",
        "new rule",
        (
            ("rehearsal.create", "customresourcedefinitions.apiextensions.k8s.io"),
            ("rehearsal.create", "ruleds.example.com"),
        ),
        lambda site: (site.server(TARGET, *_NEW_CEL), site.server(OLD)),
    ),
    "dropped field": Case(
        "a field of StatefulSets whose feature gate is off in the target",
        "usual",
        (("rehearsal.changed", "statefulsets.apps"),),
        lambda site: (site.server(TARGET), site.server(TARGET, "--feature-gates=MaxUnavailableStatefulSet=false")),
    ),
    "field dropped when written": Case(
        "the same, but a stored StatefulSet has the field: only new StatefulSets lack it",
        "max unavailable",
        (("rehearsal.dropped", "statefulsets.apps"),),
        lambda site: (site.server(TARGET), site.server(TARGET, "--feature-gates=MaxUnavailableStatefulSet=false")),
    ),
    "lost key": Case(
        "an encryption configuration without the key that Secrets are encrypted with",
        "encrypted",
        (("rehearsal.unreadable", "secrets"),),
        _keys(key("a"), key("b")),
    ),
    "KMS": Case(
        "a KMS plugin; a rehearsal doesn't call it, so the result is unknown",
        "usual",
        (("rehearsal.kms", "current"),),
        _keys(_KMS, _KMS),
    ),
    "conversion webhook": Case(
        "custom resources that a webhook converts; a rehearsal doesn't call it, so the result is unknown",
        "converted",
        (("rehearsal.conversion", "converteds.example.com"),),
    ),
    "refused today": Case(
        "a policy that refuses every request of both versions, so the result is unknown",
        "refused today",
        (("rehearsal.unproven", "plains.example.com"),),
    ),
    "unknown flag": Case("`--no-such-flag=1`", "usual", (("rehearsal.start", ""),), _target("--no-such-flag=1")),
    "unknown feature gate": Case(
        "`--feature-gates=NoSuchGate=true`",
        "usual",
        (("rehearsal.start", ""),),
        _target("--feature-gates=NoSuchGate=true"),
    ),
    "admission denies": Case(
        "`--enable-admission-plugins=AlwaysDeny`",
        "usual",
        (("rehearsal.start", ""),),
        _target("--enable-admission-plugins=AlwaysDeny"),
    ),
    "pod security": Case(
        "`--admission-control-config-file`: `enforce: restricted` everywhere",
        "usual",
        (("rehearsal.create", "pods"),),
        _admission("PodSecurity", _POD_SECURITY),
    ),
    "no pod is admitted": Case(
        "`--enable-admission-plugins=ImagePolicyWebhook`, whose backend doesn't answer",
        "usual",
        (("rehearsal.create", "pods"),),
        _admission("ImagePolicyWebhook", _IMAGE_POLICY),
    ),
    "other etcd prefix": Case(
        "`--etcd-prefix=/other`",
        "usual",
        (("rehearsal.unreadable", "configmaps"),),
        _target("--etcd-prefix=/other"),
    ),
    "other audience": Case(
        "`--api-audiences=https://other.example`: the target refuses each pod's token",
        "usual",
        (("rehearsal.token", "serviceaccounts"),),
        _target("--api-audiences=https://other.example"),
    ),
    "issuer": Case(
        "`--service-account-issuer=https://other.example`",
        "usual",
        (("rehearsal.token", "serviceaccounts"),),
        _other_issuer,
    ),
    "connections to pods": Case(
        "a user who may `get` pods/exec, and not `create` it; until v1.34 that was enough",
        "connections to pods",
        (("rehearsal.denied", "v1 pods/exec"),),
        lambda site: (site.server(OLD, _UNTIL_1_34), site.server(TARGET)),
        ClientRequests(_CONNECTS),
    ),
    "Service out of range": Case(
        "`--service-node-port-range=30000-30100`, and a Service with port 32000",
        "node port",
        (("rehearsal.service-range", "services"),),
        _target("--service-node-port-range=30000-30100"),
    ),
    "usual objects": Case("objects of twenty kinds", "usual"),
    "empty": Case("a new cluster", "empty"),
    "same version": Case("nothing was changed", "usual", (), lambda site: (site.server(OLD), site.server(OLD))),
    "encrypted": Case("Secrets that a key encrypts, which both have", "encrypted", (), _keys(key("a"), key("a"))),
    "webhooks and aggregated APIs": Case("a webhook for everything, and an API of another server", "webhooks"),
    "policies and quotas": Case(
        "admission policies, rules of CRDs, quotas, limits, Pod Security levels", "policies and quotas"
    ),
}
"""Those with a mistake, then those without any."""

MEASURED: Mapping[str, Case] = {name: Case(str(scale), name) for name, scale in SCALES.items()}
"""Without a mistake, and large: only `--only` runs them."""
