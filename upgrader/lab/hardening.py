"""`lab up --hardened`: the settings that benchmarks such as CIS's require of a kubeadm control plane, and their files.

Audit log to a file, encryption at rest, admission and authentication by configuration files, no profiling, strict TLS;
with volumes and an environment variable, which a plain kubeadm cluster doesn't have. Pure.
"""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["AUDIT_LOG", "ENCRYPTED_PREFIX", "component_settings", "controller_files"]

AUDIT_LOG = "/var/log/kubernetes/audit/audit.log"
ENCRYPTED_PREFIX = "k8s:enc:secretbox:v1:lab:"
"""The prefix with which etcd stores each Secret."""

_FOLDER = "/etc/kubernetes/hardening"
_POLICY = f"{_FOLDER}/audit-policy.yaml"
_ENCRYPTION = "/etc/kubernetes/encryption"
_APISERVER = "apiserver.config.k8s.io/v1"
_CIPHERS = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
)
# Anonymous requests are refused elsewhere; kubeadm's own probes, and a joining node, have no credentials.
_ANONYMOUS = ("/livez", "/readyz", "/healthz", "/api/v1/namespaces/kube-public/configmaps/cluster-info")
_API_SERVER = {
    "audit-log-path": AUDIT_LOG,
    "audit-log-maxage": "30",
    "audit-log-maxbackup": "10",
    "audit-log-maxsize": "100",
    "audit-policy-file": _POLICY,
    "authentication-config": f"{_FOLDER}/authentication.yaml",
    "admission-control-config-file": f"{_FOLDER}/admission.yaml",
    "enable-admission-plugins": "NodeRestriction,EventRateLimit",
    "encryption-provider-config": f"{_ENCRYPTION}/config.yaml",
    "profiling": "false",
    "request-timeout": "300s",
    "tls-min-version": "VersionTLS12",
    "tls-cipher-suites": ",".join(_CIPHERS),
}
_VOLUMES = (
    ("audit-policy", _POLICY, "File", True),
    ("audit-log", AUDIT_LOG.rpartition("/")[0], "DirectoryOrCreate", False),
    ("hardening", _FOLDER, "Directory", True),
    ("encryption", _ENCRYPTION, "Directory", True),
)


def component_settings() -> dict[str, dict[str, Any]]:
    """For kubeadm's ClusterConfiguration: component → its extraArgs, extraVolumes and extraEnvs."""
    return {
        "apiServer": {
            "extraArgs": _args(_API_SERVER),
            "extraVolumes": [
                {"name": name, "hostPath": path, "mountPath": path, "readOnly": read_only, "pathType": kind}
                for name, path, kind, read_only in _VOLUMES
            ],
            "extraEnvs": [{"name": "TZ", "value": "UTC"}],
        },
        "controllerManager": {"extraArgs": _args({"profiling": "false", "terminated-pod-gc-threshold": "1000"})},
        "scheduler": {"extraArgs": _args({"profiling": "false"})},
    }


def controller_files(encryption_key: str) -> dict[str, tuple[str, int]]:
    """Files of each controller: path → (text, mode). `encryption_key`: 32 bytes in base64, the same on each."""
    documents = {
        _POLICY: {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        },
        f"{_FOLDER}/authentication.yaml": {
            "apiVersion": _APISERVER,
            "kind": "AuthenticationConfiguration",
            "anonymous": {"enabled": True, "conditions": [{"path": path} for path in _ANONYMOUS]},
        },
        f"{_FOLDER}/admission.yaml": {
            "apiVersion": _APISERVER,
            "kind": "AdmissionConfiguration",
            # By a relative path, as is usual: beside this file.
            "plugins": [{"name": "EventRateLimit", "path": "event-rate-limit.yaml"}],
        },
        f"{_FOLDER}/event-rate-limit.yaml": {
            "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
            "kind": "Configuration",
            "limits": [{"type": "Server", "qps": 500, "burst": 5000}],
        },
        f"{_ENCRYPTION}/config.yaml": {
            "apiVersion": _APISERVER,
            "kind": "EncryptionConfiguration",
            "resources": [
                {
                    "resources": ["secrets"],
                    "providers": [
                        {"secretbox": {"keys": [{"name": "lab", "secret": encryption_key}]}},
                        {"identity": {}},
                    ],
                }
            ],
        },
    }
    return {path: (yaml.safe_dump(document, sort_keys=False), 0o600) for path, document in documents.items()}


def _args(flags: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in flags.items()]
