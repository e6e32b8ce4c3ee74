"""The chart's probes of CoreDNS ask for plugins that a Corefile may lack."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from upgrader.adopt.dns_probes import check_dns_probes
from upgrader.errors import Blocked

_PROBES = {"readinessProbe": {"httpGet": {"path": "/ready"}}, "livenessProbe": {"httpGet": {"path": "/health"}}}


_IMAGE = "registry.k8s.io/coredns/coredns:v1.14.2"


def _check(corefile: str, *probes: str, image: str = _IMAGE, **metadata: Any) -> None:
    """A Deployment with these probes, and the Corefile that the chart would have."""
    container = {"name": "coredns", "image": image, **{name: _PROBES[name] for name in probes}}
    deployment = {"metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}}
    config = {"kind": "ConfigMap", "metadata": {"name": "coredns"}, "data": {"Corefile": corefile}}
    check_dns_probes(deployment, yaml.safe_dump(config))


@pytest.mark.parametrize(
    ("corefile", "probes", "lacks"),
    [
        (
            ".:53 {\n    health\n    forward . 9.9.9.9\n}\n",
            ("livenessProbe",),
            "no readinessProbe, .*`ready` that listens on port 8181",
        ),
        (".:53 {\n    # ready\n    health\n}\n", ("livenessProbe",), "no readinessProbe"),
        (".:53 {\n    ready :8182\n    health\n}\n", ("livenessProbe",), "no readinessProbe"),
        (".:53 {\n    ready\n}\n", ("readinessProbe",), "no livenessProbe, .*`health` that listens on port 8080"),
        (".:53 {\n    ready\n    health 0.0.0.0:8081 {\n        lameduck 5s\n    }\n}\n", (), "no livenessProbe"),
        (".:53 {\n    ready\n    health 127.0.0.1:8080\n}\n", ("readinessProbe",), "no livenessProbe"),
        (".:53 {\n    ready [::1]:8181\n    health\n}\n", (), "no readinessProbe"),
        (".:53 {\n    ready localhost:8181\n    health\n}\n", (), "no readinessProbe"),
    ],
    ids=["no ready", "a comment", "ready elsewhere", "no health", "health elsewhere", "loopback", "IPv6", "its name"],
)
def test_a_plugin_that_a_probe_asks_for_is_missing(corefile: str, probes: tuple[str, ...], lacks: str) -> None:
    """As in manifests from before kubeadm's had both: the chart's pods would never be Ready, or always restart."""
    with pytest.raises(Blocked, match=f"coredns has {lacks}") as no:
        _check(corefile, *probes)
    assert "nothing was changed" in no.value.message and "`coredns.enabled: false`" in no.value.remedy


@pytest.mark.parametrize(
    "corefile",
    [
        ".:53 {\n    ready\n    health\n}\n",
        ".:53 {\n\thealth {\n\t\tlameduck 5s\n\t}\n\tready\n}\n",
        "health{$ENV}.example:53 {\n    errors\n}\n.:53 {\n    health :8080\n    ready 0.0.0.0:8181\n}\n",
        ".:53 {\n    ready {$READY}\n    health{\n    }\n}\n",
    ],
    ids=["plain", "a block", "with their ports", "from the environment"],
)
def test_a_corefile_that_has_both_needs_no_probe_before(corefile: str) -> None:
    """The chart adds it, and it is answered."""
    _check(corefile)


def test_what_answers_now_is_not_looked_for() -> None:
    """With its own probes, CoreDNS is Ready; and a release is as its values say, which may leave it alone."""
    _check(".:53 {\n    forward . 9.9.9.9\n}\n", "readinessProbe", "livenessProbe")
    _check(".:53 {}\n", annotations={"meta.helm.sh/release-name": "kubernetes"})
    check_dns_probes(None, "")
    check_dns_probes({"metadata": {}, "spec": {"template": {"spec": {"containers": [{"name": "coredns"}]}}}}, "")


@pytest.mark.parametrize(
    ("image", "older"),
    [
        ("k8s.gcr.io/coredns:1.2.4", True),
        ("registry.example.org:5000/coredns:v1.4.0", True),
        ("coredns/coredns:1.3.1@sha256:0123", True),
        ("coredns/coredns:1.5.0", False),
        ("registry.k8s.io/coredns/coredns:v1.14.2", False),
        ("registry.example.org:1024/coredns", False),
        ("coredns/coredns:latest", False),
    ],
)
def test_a_coredns_that_is_too_old_for_the_plugin_is_updated_first(image: str, older: bool) -> None:
    """With a line that it doesn't know, it would not start again. `health` is older than any of them."""
    with pytest.raises(Blocked, match="no readinessProbe") as no:
        _check(".:53 {\n    health\n    proxy . 9.9.9.9\n}\n", "livenessProbe", image=image)
    assert (f"First update CoreDNS: {image} " in no.value.remedy) is older
    assert "add the line `ready`" in no.value.remedy and "`coredns.enabled: false`" in no.value.remedy
    with pytest.raises(Blocked, match="no livenessProbe") as no:
        _check(".:53 {\n    proxy . 9.9.9.9\n}\n", "readinessProbe", image=image)
    assert "First update" not in no.value.remedy
