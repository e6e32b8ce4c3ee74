"""The allow-list of a copy's flags and values: those that decide how components behave, and that a lab can have.

A flag is copied only with a value of its form, so that nothing else can be in it. Flags that name files, addresses,
servers or the cluster's own names are not copied: a lab has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from upgrader.model.cluster_copy.allowed import NOTHING, any_of, fields, flag, number, word

__all__ = ["VALUES", "copied_flags", "has_form", "without_kubeadms"]

_BOOL = r"(?i:true|false)"
_NUMBER = r"\d{1,9}(?:\.\d{1,6})?"
_WORKERS = r"\d{1,3}"
"""How many of something start at once: an untrusted file must not exhaust the memory of the lab's machine. All flags of
this form together make some ten thousand goroutines, of a few KiB each.
"""
_DURATION = r"(?:\d{1,9}(?:\.\d{1,3})?(?:ms|s|m|h))+"
_NAMES = r"[A-Za-z*-][A-Za-z0-9*-]{0,62}(?:,[A-Za-z*-][A-Za-z0-9*-]{0,62})*"
_SWITCHES = r"[A-Za-z][A-Za-z0-9./]{0,126}=(?i:true|false)(?:,[A-Za-z][A-Za-z0-9./]{0,126}=(?i:true|false))*"
_CIPHERS = r"TLS_[A-Z0-9_]{1,60}(?:,TLS_[A-Z0-9_]{1,60})*"
_SIZES = r"[a-z.]{1,126}#\d{1,6}(?:,[a-z.]{1,126}#\d{1,6})*"

_LEADER = {
    "leader-elect-lease-duration": _DURATION,
    "leader-elect-renew-deadline": _DURATION,
    "leader-elect-retry-period": _DURATION,
    "kube-api-burst": _NUMBER,
    "kube-api-qps": _NUMBER,
}
_EVERY = {
    "feature-gates": _SWITCHES,
    "profiling": _BOOL,
    "tls-cipher-suites": _CIPHERS,
    "tls-min-version": "VersionTLS1[0-3]",
}
_FLAGS: Mapping[str, Mapping[str, str]] = {
    "kube-apiserver": {
        **_EVERY,
        "default-not-ready-toleration-seconds": _NUMBER,
        "default-unreachable-toleration-seconds": _NUMBER,
        "default-watch-cache-size": _NUMBER,
        "delete-collection-workers": _WORKERS,
        "disable-admission-plugins": _NAMES,
        "enable-admission-plugins": _NAMES,
        "enable-priority-and-fairness": _BOOL,
        "event-ttl": _DURATION,
        "max-mutating-requests-inflight": _NUMBER,
        "max-requests-inflight": _NUMBER,
        "min-request-timeout": _NUMBER,
        "request-timeout": _DURATION,
        "runtime-config": _SWITCHES,
        "watch-cache": _BOOL,
        "watch-cache-sizes": _SIZES,
    },
    "kube-controller-manager": {
        **_EVERY,
        **_LEADER,
        **{
            f"concurrent-{name}-syncs": _WORKERS
            for name in ("deployment", "endpoint", "gc", "job", "namespace", "replicaset", "service", "statefulset")
        },
        "controllers": _NAMES,
        "node-eviction-rate": _NUMBER,
        "node-monitor-grace-period": _DURATION,
        "node-monitor-period": _DURATION,
        "terminated-pod-gc-threshold": _NUMBER,
    },
    "kube-scheduler": {**_EVERY, **_LEADER},
}
_KUBEADMS = frozenset(
    [
        "advertise-address",
        "allocate-node-cidrs",
        "allow-privileged",
        "authentication-kubeconfig",
        "authorization-kubeconfig",
        "authorization-mode",
        "bind-address",
        "client-ca-file",
        "cluster-cidr",
        "cluster-name",
        "cluster-signing-cert-file",
        "cluster-signing-key-file",
        "enable-bootstrap-token-auth",
        "etcd-cafile",
        "etcd-certfile",
        "etcd-keyfile",
        "etcd-servers",
        "kubeconfig",
        "kubelet-client-certificate",
        "kubelet-client-key",
        "kubelet-preferred-address-types",
        "leader-elect",
        "proxy-client-cert-file",
        "proxy-client-key-file",
        "requestheader-allowed-names",
        "requestheader-client-ca-file",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-username-headers",
        "root-ca-file",
        "secure-port",
        "service-account-issuer",
        "service-account-key-file",
        "service-account-private-key-file",
        "service-account-signing-key-file",
        "service-cluster-ip-range",
        "tls-cert-file",
        "tls-private-key-file",
        "use-service-account-credentials",
    ]
)
"""Flags of kubeadm's static pods with files, addresses and names, of which each lab has its own."""
_PLUGINS_WITH_FILES = ("EventRateLimit", "ImagePolicyWebhook", "PodNodeSelector", "PodTolerationRestriction")
"""Admission plugins that don't start, or do nothing, without a file of their own."""

VALUES = fields(
    kube__apiserver=fields(
        gracefulShutdown=fields(
            drainSeconds=number, goawayChance=number, watchSeconds=number, holdSeconds=number, terminationSeconds=number
        ),
        health=fields(intervalMilliseconds=number, failures=number, restartAfterSeconds=number),
        haproxy=fields(idleHours=number, maxConnections=number, threads=number),
        rollout=fields(minReadySeconds=number, progressDeadlineSeconds=number, revisionHistoryLimit=number),
        podDisruptionBudget=fields(enabled=flag),
        checkpoint=fields(enabled=flag),
    ),
    kubernetes=fields(
        controlPlane=fields(minReadySeconds=number, progressDeadlineSeconds=number, terminationSeconds=number),
        controllerManager=fields(checkpoint=fields(enabled=flag)),
        scheduler=fields(checkpoint=fields(enabled=flag)),
        kubeProxy=fields(maxUnavailable=any_of(number, word)),
    ),
)
"""Release → what is copied of its values besides flags: times and numbers by which the charts roll out."""


def has_form(component: str, name: str, value: str) -> bool:
    """Whether a copy may have that flag with that value."""
    form = _FLAGS.get(component, {}).get(name)
    return form is not None and re.fullmatch(form, value) is not None


def without_kubeadms(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a static pod, without those that kubeadm gives to each."""
    return {name: value for name, value in flags.items() if name not in _KUBEADMS}


def copied_flags(component: str, given: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """What is copied of a chart's `extraArgs`, and what is not, as `--NAME` with the reason; never a value."""
    copied, left_out = dict[str, str](), list[str]()
    for name, value in (given if isinstance(given, Mapping) else {}).items():
        shown = f"--{name}" if word(name) is not NOTHING else "a flag"
        text = _joined(value)
        if name in ("enable-admission-plugins", "disable-admission-plugins") and text is not None:
            plugins = text.split(",")
            left_out += [f"{shown}={each}" for each in plugins if each in _PLUGINS_WITH_FILES]
            text = ",".join(each for each in plugins if each not in _PLUGINS_WITH_FILES)
            if not text:
                continue
        if text is not None and has_form(component, name, text):
            copied[name] = text
        else:
            left_out.append(shown)
    return copied, tuple(left_out)


def _joined(value: Any) -> str | None:
    """A flag that is given several times, or its one value."""
    found = list(value) if isinstance(value, list | tuple) else [value]
    return ",".join(found) if found and all(isinstance(each, str) for each in found) else None
