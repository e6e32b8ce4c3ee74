"""kube-apiserver with a file for each of authentication, authorization, egress and tracing, instead of flags."""

from __future__ import annotations

from typing import Any

import yaml

from testkit.kinds.static_pods import change_static_pod, words_of
from testkit.lab_cluster import LabCluster, until
from upgrader.lab.lifecycle import Lab

__all__ = ["configure_by_files", "is_configured_by_files"]

_FOLDER = "/etc/kubernetes/configuration"
_V1 = "apiserver.config.k8s.io/v1"
_DENIED = "kinds-denied"
"""A user of whom an authorizer is asked that can't be reached; everybody else doesn't wait for it."""
_AUTHORIZER = "http://127.0.0.1:1/authorize"
_ANONYMOUS = ("/livez", "/readyz", "/healthz", "/api/v1/namespaces/kube-public/configmaps/cluster-info")
_FLAGS = {
    "authentication-config": f"{_FOLDER}/authentication.yaml",
    "authorization-config": f"{_FOLDER}/authorization.yaml",
    "egress-selector-config-file": f"{_FOLDER}/egress.yaml",
    "tracing-config-file": f"{_FOLDER}/tracing.yaml",
}
_WEBHOOK = {
    "timeout": "3s",
    "authorizedTTL": "5m",
    "unauthorizedTTL": "30s",
    "subjectAccessReviewVersion": "v1",
    "matchConditionSubjectAccessReviewVersion": "v1",
    "failurePolicy": "Deny",
    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": f"{_FOLDER}/authorizer.conf"},
    "matchConditions": [{"expression": f"request.user == '{_DENIED}'"}],
}
_FILES: dict[str, dict[str, Any]] = {
    "authentication.yaml": {
        "apiVersion": _V1,
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": path} for path in _ANONYMOUS]},
    },
    "authorization.yaml": {
        "apiVersion": _V1,
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Webhook", "name": "closed", "webhook": _WEBHOOK},
            {"type": "Node", "name": "node"},
            {"type": "RBAC", "name": "rbac"},
        ],
    },
    "authorizer.conf": {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "closed", "cluster": {"server": _AUTHORIZER}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "closed", "context": {"cluster": "closed", "user": "none"}}],
        "current-context": "closed",
    },
    "egress.yaml": {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {"name": name, "connection": {"proxyProtocol": "Direct"}} for name in ("cluster", "controlplane", "etcd")
        ],
    },
    # No collector listens: what can't be sent is dropped.
    "tracing.yaml": {
        "apiVersion": _V1,
        "kind": "TracingConfiguration",
        "endpoint": "127.0.0.1:4317",
        "samplingRatePerMillion": 1000,
    },
}


def configure_by_files(cluster: LabCluster) -> None:
    """As kubeadm writes the static pod if `authorization-config` is among its `extraArgs`: without the modes."""
    texts = {name: yaml.safe_dump(document, sort_keys=False) for name, document in _FILES.items()}
    written = "".join(f"cat >{_FOLDER}/{name} <<'END'\n{text}END\n" for name, text in texts.items())
    cluster.on_controller(f"set -e; umask 077; mkdir -p {_FOLDER}\n{written}")
    change_static_pod(cluster, "kube-apiserver", {**_FLAGS, "authorization-mode": None}, _FOLDER)


def is_configured_by_files(cluster: LabCluster) -> None:
    """Each kube-apiserver reads the files, anonymous requests are let through at the paths that one of them lists, and
    one user is denied by the authorizer that another one lists first.
    """
    until("every kube-apiserver to read its files", lambda: _all_read_them(cluster), timeout_seconds=120)
    endpoint = Lab.find(cluster.name).placement.endpoint
    asked = "curl -sk --max-time 10 -o /dev/null -w '%{http_code} ' "
    found = cluster.on_controller(f"{asked} {endpoint}/readyz; {asked} {endpoint}/version").split()
    assert found == ["200", "401"], f"an anonymous client of /readyz and /version gets {found}"
    # kube-apiserver answers a failure that denies with 500 and its reason.
    for user, wanted in (("kinds-allowed", "allowed"), (_DENIED, _AUTHORIZER)):
        get = f"kubectl --kubeconfig=/etc/kubernetes/admin.conf --as={user} get --raw /version"
        said = cluster.on_controller(f"{get} 2>&1 >/dev/null && echo allowed || true")
        assert wanted in said, (user, said)


def _all_read_them(cluster: LabCluster) -> bool:
    wanted = {f"--{name}={value}" for name, value in _FLAGS.items()}
    found = words_of(cluster, "kube-apiserver")
    modes = [word for words in found for word in words if word.startswith("--authorization-mode")]
    return found != [] and all(wanted <= words for words in found) and not modes
