"""Flags, as manifests of rollout-operator have them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from upgrader.in_cluster.guard.commands.entry import main
from upgrader.in_cluster.guard.commands.flags import parse
from upgrader.in_cluster.guard.commands.ingress_flags import IngressSettings
from upgrader.in_cluster.guard.guard_errors import UsageError

TLS = ("-server-tls.enabled=true", "-kubernetes.namespace=shop")


def test_the_manifest_of_the_original_is_understood() -> None:
    """One dash or two, with = or a word of its own, and its defaults."""
    one = parse(["-server-tls.enabled=true", "-kubernetes.namespace=shop", "-server-tls.port=9443"])
    other = parse(["--server-tls.enabled", "--kubernetes.namespace", "shop", "--server-tls.port", "9443"])
    assert one == other
    assert (one.port, one.tls_port, one.namespaces, one.inject, one.dry_run) == (8001, 9443, ("shop",), True, False)
    assert one.dns_name == "rollout-operator.shop.svc"
    assert one.secret == "rollout-operator-self-signed-certificate"
    assert (one.life, one.timeout_seconds) == (timedelta(days=365), 10)


def test_budgets_are_asked_unless_that_is_switched_off() -> None:
    """Where guard is for, or in namespaces of their own."""
    assert parse(TLS).budget_namespaces == ("shop",)
    assert parse([*TLS, "-zpdb.namespace=a", "-zpdb.namespace=b", "-zpdb.namespace=a"]).budget_namespaces == ("a", "b")
    assert parse([*TLS, "-zpdb.namespace=a", "-zpdb.enabled=false"]).budget_namespaces == ()


def test_where_and_for_how_long_pods_are_asked() -> None:
    """The domain of the cluster's DNS, and a deadline, with the original's defaults."""
    plain = parse(TLS)
    assert (plain.cluster_domain, plain.pods_timeout_seconds) == ("cluster.local.", 5)
    given = parse([*TLS, "-kubernetes.cluster-domain=example.internal", "--pods.client-timeout", "500ms"])
    assert (given.cluster_domain, given.pods_timeout_seconds) == ("example.internal", 0.5)


def test_flags_that_change_nothing_here_are_taken_and_named() -> None:
    """rollout-operator's default manifests start: what does nothing is said, once for each."""
    upstream = """-use-zone-tracker=true -zone-tracker.config-map-name=tracker
        -zpdb.pod-ready-annotation-patch-timeout=5s
        -log.format=logfmt -kubernetes.client-timeout=5m -kubernetes.client-qps 50 --kubernetes.client-burst=100
        -server.cluster-validation.http.enabled -server.cluster-validation.http.soft-validation=true"""
    given = parse([*upstream.split(), *TLS])
    assert given.zone_tracker == "tracker"
    assert sorted(each.partition(":")[0] for each in given.ignored) == [
        "-kubernetes.client-burst",
        "-kubernetes.client-qps",
        "-kubernetes.client-timeout",
        "-log.format",
        "-server.cluster-validation.http.enabled",
        "-server.cluster-validation.http.soft-validation",
        "-zpdb.pod-ready-annotation-patch-timeout",
    ]
    assert (parse(TLS).zone_tracker, parse(TLS).ignored) == ("", ())
    assert parse([*TLS, "-zone-tracker.config-map-name=tracker"]).zone_tracker == "", "it isn't used"
    assert parse([*TLS, "-use-zone-tracker"]).zone_tracker == "rollout-operator-zone-tracker"


@pytest.mark.parametrize(
    ("text", "life"),
    [
        ("1y", timedelta(days=365)),
        ("1h30m", timedelta(hours=1.5)),
        ("2w", timedelta(days=14)),
        ("600500ms", timedelta(seconds=600.5)),
    ],
)
def test_durations_are_those_of_go_and_of_prometheus(text: str, life: timedelta) -> None:
    """Both, as the original takes both."""
    assert parse([*TLS, f"-server-tls.self-signed-cert.expiration={text}"]).life == life


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-server-tls.enabled"], "namespace"),
        (["-kubernetes.namespace=shop", "-roles=webhook"], "-server-tls.enabled"),
        ([*TLS, "-kubernetes.api-url=https://x"], "config-file"),
        ([*TLS, "-server-tls.cert-file=x"], "self-signed-cert.enabled=false"),
        ([*TLS, "-server-tls.self-signed-cert.enabled=false"], "no certificate"),
        (
            [*TLS, "-server-tls.self-signed-cert.enabled=false", "-server-tls.cert-file=x", "-server-tls.key-file=y"],
            "update-ca-bundle=false",
        ),
    ],
)
def test_contradictions_are_refused(arguments: list[str], message: str) -> None:
    """Before anything begins, with what to set."""
    with pytest.raises(UsageError, match=message):
        parse(arguments)


@pytest.mark.parametrize(
    "argument",
    [
        "-server.port=x",
        "-server-tls.request-timeout=40s",
        "-server-tls.self-signed-cert.expiration=2m",
        "-webhook-dry-run=maybe",
        "-log.level=loud",
        "-bogus=1",
        "-zone-tracker.config-map-name=",
        "-roles=x",
    ],
)
def test_a_wrong_value_ends_with_usage(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, which names the flag or its value."""
    with pytest.raises(SystemExit) as ended:
        parse([*TLS, argument])
    assert ended.value.code == 2 and argument.rpartition("=")[0].lstrip("-") in capsys.readouterr().err


def test_certificates_of_others_are_files() -> None:
    """Whose authority is theirs to inject."""
    given = ["-server-tls.self-signed-cert.enabled=false", "-server-tls.cert-file=a", "-server-tls.key-file=b"]
    assert parse([*TLS, *given, "-webhooks.update-ca-bundle=false"]).certificate_files == (Path("a"), Path("b"))


def test_roles_follow_from_what_the_original_has() -> None:
    """Rollouts always, webhooks with TLS, as rollout-operator; unless they are named."""
    assert parse(["-kubernetes.namespace=shop"]).roles == ("rollout",)
    assert parse(TLS).roles == ("rollout", "webhook")
    assert parse([*TLS, "-roles=webhook"]).roles == ("webhook",)
    several = parse(["-kubernetes.namespace=shop", "-kubernetes.namespace=ops", "-reconcile.interval=30s"])
    assert (several.namespaces, several.interval_seconds) == (("shop", "ops"), 30)


def test_runs_hold_groups_only_where_that_is_said() -> None:
    """rollout-operator's manifests give no right to read the Lease."""
    assert not parse(TLS).hold and not parse([*TLS, "-hold=none"]).hold and parse([*TLS, "-hold=run"]).hold


def test_protectors_have_podseidons_defaults() -> None:
    """No cell is answered for, all Deployments with its label get one, and no role of theirs runs by itself."""
    found = parse(TLS)
    own = found.protector
    assert found.roles == ("rollout", "webhook")
    assert (own.cells, own.cell, own.core, own.namespaces, own.pod_labels) == ({}, "default", None, (), "")
    assert own.protected.matches({"podseidon.kubewharf.io/protect": "true"}) and not own.protected.matches({})
    assert (own.defaults.max_concurrent_lag, own.defaults.compact_threshold, own.defaults.aggregation_rate) == (
        0,
        100,
        1,
    )


def test_cells_are_names_with_kubeconfigs() -> None:
    """One without has guard's own API server."""
    own = parse([*TLS, "-protector.cells=one,two=/x/y", "-protector.path-prefix=/a/b/"]).protector
    assert (dict(own.cells), own.prefix) == ({"one": None, "two": Path("/x/y")}, "/a/b")
    assert parse([*TLS, "-roles=generator,aggregator"]).roles == ("generator", "aggregator")


@pytest.mark.parametrize(
    "flag",
    ["cells=a/b", "cell=", "path-prefix=x", "protected-selector=a in", "max-concurrent-lag=-1", "aggregation-rate=0"],
)
def test_flags_of_protectors_that_are_wrong(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused by name, before anything begins."""
    with pytest.raises(SystemExit):
        parse([*TLS, f"-protector.{flag}"])
    assert flag.partition("=")[0] in capsys.readouterr().err


def test_ingress_daemon_sets_have_namespaces_of_their_own() -> None:
    """Those that guard is for, unless others are named."""
    alone = parse(["-roles=ingress", "-kubernetes.namespace=edge"])
    assert (alone.roles, alone.ingress) == (("ingress",), IngressSettings(("edge",), ""))
    flags = ("-ingress.namespace=a", "-ingress.namespace=b", "-ingress.health-checker-image=guard:1")
    assert parse([*TLS, *flags]).ingress == IngressSettings(("a", "b"), "guard:1")
    keys = ("-ingress.node-annotation=agent.example/out", "-ingress.node-annotation=agent.example/out-since")
    allowed = parse([*TLS, *keys]).ingress.node_annotations
    assert allowed == ("agent.example/out", "agent.example/out-since"), "those, and no others"


@pytest.mark.parametrize(
    "flags", [["-ingress=nginx", "-port=1"], ["-ingress=a/b/c", "-port=1"], ["-ingress=a/b", "-port=x"], ["-port=1"]]
)
def test_a_health_checker_that_is_told_nonsense_ends_with_usage(flags: list[str]) -> None:
    """Exit code 2, before anything is asked."""
    with pytest.raises(SystemExit) as ended:
        main(["ingress-health", "-node=n1", *flags])
    assert ended.value.code == 2
