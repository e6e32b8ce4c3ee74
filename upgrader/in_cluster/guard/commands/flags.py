"""The flags, as Go's programs take them: `-x=1`, `-x 1`, `--x=1`. Their names are those of rollout-operator."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from upgrader.in_cluster.guard.commands.ingress_flags import IngressSettings, add_ingress_flags, ingress_settings
from upgrader.in_cluster.guard.commands.protector_flags import ProtectorSettings, add_flags, settings_of
from upgrader.in_cluster.guard.guard_errors import UsageError

__all__ = ["ROLES", "Settings", "parse"]

ROLES = ("rollout", "webhook", "generator", "aggregator", "ingress")
_ALONE = ("rollout", "webhook")
"""The default roles: those of rollout-operator."""

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_IN = "rollout-operator-self-signed-certificate"
"""The Secret of rollout-operator's own certificate."""
_TRACKER = "rollout-operator-zone-tracker"
_IGNORED = {
    "log.format": "the log is JSON",
    "kubernetes.client-timeout": "guard sets its own timeout for requests to the API server",
    "kubernetes.client-qps": "guard doesn't limit its requests to the API server",
    "kubernetes.client-burst": "guard doesn't limit its requests to the API server",
    "zpdb.pod-ready-annotation-patch-timeout": "guard doesn't annotate pods",
    **{
        f"server.cluster-validation.http.{each}": "guard doesn't check the cluster label of requests"
        for each in ("enabled", "soft-validation", "excluded-paths", "excluded-user-agents", "label")
    },
}
"""Flags of rollout-operator that guard accepts and ignores, so that its manifests start; each with the reason."""
_MOST_TIMEOUT_SECONDS = 30.0
"""The longest timeout that the API server gives a webhook."""
_LEAST_LIFE_SECONDS = 600.0
"""A certificate begins five minutes ago, for clocks that are behind: two thirds of a shorter one would be over at once,
and each look would make another."""


@dataclass(frozen=True)
class Settings:
    """What the flags say."""

    roles: tuple[str, ...]
    """Of ROLES."""
    log_level: str
    port: int
    tls_port: int
    certificate_files: tuple[Path, Path] | None
    """Certificate and key; None: from the Secret."""
    secret: str
    dns_name: str
    organization: str
    life: timedelta
    inject: bool
    timeout_seconds: float
    interval_seconds: float
    dry_run: bool
    pods_timeout_seconds: float
    """How long a pod may take to answer."""
    cluster_domain: str
    """Of the cluster's DNS."""
    hold: bool
    """Whether a run of the upgrader holds groups, and IngressDaemonSets, still."""
    namespaces: tuple[str, ...]
    budget_namespaces: tuple[str, ...]
    """Where zone-aware budgets are asked; none: nowhere."""
    kubeconfig: Path | None
    url: str
    zone_tracker: str = ""
    """The ConfigMap in which rollout-operator has noted when zones were downscaled; "": none."""
    ignored: tuple[str, ...] = ()
    """Flags that were given and are ignored, each with the reason."""
    protector: ProtectorSettings = field(default_factory=ProtectorSettings)
    ingress: IngressSettings = field(default_factory=IngressSettings)


def parse(arguments: Sequence[str]) -> Settings:
    """Raises UsageError for flags that contradict each other; one that is wrong in itself ends the process (2)."""
    given = _parser().parse_args(arguments)
    namespaces = tuple(dict.fromkeys(given.namespaces))
    if not namespaces:
        raise UsageError("the Kubernetes namespace has not been specified: set -kubernetes.namespace")
    if given.url and not given.kubeconfig:
        raise UsageError("-kubernetes.api-url needs -kubernetes.config-file")
    roles = given.roles or (_ALONE if given.tls else ("rollout",))
    if "webhook" in roles and not given.tls:
        raise UsageError("the role webhook needs -server-tls.enabled")
    files = _files(given)
    if files and given.inject:
        raise UsageError("guard doesn't know the CA of a certificate from files: set -webhooks.update-ca-bundle=false")
    return Settings(
        roles=roles,
        log_level={"warn": "warning"}.get(given.log_level, given.log_level),
        port=given.port,
        tls_port=given.tls_port,
        certificate_files=files,
        secret=given.secret,
        dns_name=given.dns_name or f"rollout-operator.{namespaces[0]}.svc",
        organization=given.organization,
        life=timedelta(seconds=given.life),
        inject=given.inject,
        timeout_seconds=given.timeout_seconds,
        interval_seconds=given.interval_seconds,
        dry_run=given.dry_run,
        pods_timeout_seconds=given.pods_timeout_seconds,
        cluster_domain=given.cluster_domain,
        hold=given.hold == "run",
        namespaces=namespaces,
        budget_namespaces=tuple(dict.fromkeys(given.budget_namespaces)) or namespaces if given.budgets else (),
        kubeconfig=given.kubeconfig,
        url=given.url,
        zone_tracker=given.zone_tracker if given.use_zone_tracker else "",
        ignored=tuple(f"-{name}: {why}" for name, why in _IGNORED.items() if getattr(given, name) is not None),
        protector=settings_of(given),
        ingress=ingress_settings(given, namespaces),
    )


def _files(given: argparse.Namespace) -> tuple[Path, Path] | None:
    files: tuple[Path, Path] = given.certificate, given.key
    if given.own:
        if any(files):
            raise UsageError("-server-tls.cert-file and -key-file need -server-tls.self-signed-cert.enabled=false")
        return None
    if not all(files):
        raise UsageError(
            "no certificate: enable -server-tls.self-signed-cert.enabled, or set -server-tls.cert-file and -key-file"
        )
    return files


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="guard", description="Protects workloads while a cluster is changed.", allow_abbrev=False
    )

    def flag(name: str, dest: str, kind: Callable[[str], Any], default: object, text: str, **more: Any) -> None:
        parser.add_argument(f"-{name}", f"--{name}", dest=dest, type=kind, default=default, help=text, **more)

    def switch(name: str, dest: str, default: bool, text: str) -> None:
        flag(name, dest, _truth, default, text, nargs="?", const=True, metavar="true|false")

    levels = ("debug", "info", "warn", "error")
    flag("log.level", "log_level", str, "info", "log level: " + ", ".join(levels), choices=levels, metavar="info")
    flag("server.port", "port", _port, 8001, "port of /ready and /metrics", metavar="8001")
    switch("server-tls.enabled", "tls", False, "answer webhooks over HTTPS")
    flag("server-tls.port", "tls_port", _port, 8443, "port of the webhooks", metavar="8443")
    text = "timeout of a webhook's request"
    flag("server-tls.request-timeout", "timeout_seconds", _seconds, 10.0, text, metavar="10s")
    text = "file of the certificate (default: the certificate in the Secret)"
    flag("server-tls.cert-file", "certificate", Path, None, text, metavar="FILE")
    flag("server-tls.key-file", "key", Path, None, "file of the certificate's private key", metavar="FILE")
    own = "server-tls.self-signed-cert"
    switch(f"{own}.enabled", "own", True, "create a CA and a certificate in a Secret")
    flag(f"{own}.secret-name", "secret", str, _IN, "name of that Secret", metavar="NAME")
    text = "DNS name in the certificate: the Service's (default: rollout-operator.NAMESPACE.svc)"
    flag(f"{own}.dns-name", "dns_name", str, "", text, metavar="NAME")
    flag(f"{own}.org", "organization", str, "upgrader", "organization in the certificate", metavar="NAME")
    text = "validity of the certificate, 10m at least"
    flag(f"{own}.expiration", "life", _life, 365 * 86400, text, metavar="1y")
    switch("webhooks.update-ca-bundle", "inject", True, "write the CA into the labelled webhook configurations")
    switch("webhook-dry-run", "dry_run", False, "deny nothing: warn and count what would be denied")
    text = f"roles, separated by commas: {', '.join(ROLES)} (default: rollout, and webhook with -server-tls.enabled)"
    flag("roles", "roles", _roles, (), text, metavar="ROLE,…")
    text = "what holds rollouts and downscales: the Lease of an active upgrade, kube-system/upgrader (run), or none"
    flag("hold", "hold", str, "none", text, choices=("run", "none"), metavar="none")
    text = "how long a pod may take to answer the request to prepare for shutdown"
    flag("pods.client-timeout", "pods_timeout_seconds", _duration, 5.0, text, metavar="5s")
    text = "domain of the cluster's DNS, for the Host header of requests to pods"
    flag("kubernetes.cluster-domain", "cluster_domain", str, "cluster.local.", text, metavar="cluster.local.")
    text = "interval at which each group is reconciled, even without changes"
    flag("reconcile.interval", "interval_seconds", _duration, 5.0, text, metavar="5s")
    text = "namespace of the StatefulSets; can be repeated"
    flag("kubernetes.namespace", "namespaces", str, [], text, action="append", metavar="NAME")
    switch("zpdb.enabled", "budgets", True, "evaluate ZoneAwarePodDisruptionBudgets, if there are any")
    text = "namespace of the ZoneAwarePodDisruptionBudgets; can be repeated (default: -kubernetes.namespace)"
    flag("zpdb.namespace", "budget_namespaces", str, [], text, action="append", metavar="NAME")
    flag("kubernetes.config-file", "kubeconfig", Path, None, "kubeconfig, outside a cluster", metavar="FILE")
    flag("kubernetes.api-url", "url", str, "", "the API server's URL, if not the kubeconfig's", metavar="URL")
    switch(
        "use-zone-tracker", "use_zone_tracker", False, "read the last downscales from rollout-operator's zone tracker"
    )
    text = "ConfigMap with the zone tracker's times of the last downscales; guard only reads it"
    flag("zone-tracker.config-map-name", "zone_tracker", _tracker, _TRACKER, text, metavar=_TRACKER)
    for name, why in _IGNORED.items():
        text = f"ignored, so that rollout-operator's manifests start: {why}"
        flag(name, name, str, None, text, nargs="?", const="", metavar="VALUE")
    add_flags(flag, _duration)
    add_ingress_flags(flag)
    return parser


def _roles(text: str) -> tuple[str, ...]:
    roles = tuple(text.split(","))
    if unknown := [role for role in roles if role not in ROLES]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a role: use {', '.join(ROLES)}")
    return roles


def _tracker(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name of a ConfigMap is needed")
    return text


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "t", "f"):
        raise argparse.ArgumentTypeError(f"{text} is not true or false")
    return text.lower() in ("true", "1", "t")


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)


def _duration(text: str) -> float:
    """Seconds of a duration in Go's or Prometheus' format."""
    parts = re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|[smhdwy])", text))
    if not parts or seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 90s, 1h30m or 1y")
    return seconds


def _life(text: str) -> float:
    seconds = _duration(text)
    if seconds < _LEAST_LIFE_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is less than 10m, the shortest validity of the webhooks' certificate")
    return seconds


def _seconds(text: str) -> float:
    seconds = _duration(text)
    if seconds > _MOST_TIMEOUT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} exceeds API servers' limit of {_MOST_TIMEOUT_SECONDS:g}s")
    return seconds
