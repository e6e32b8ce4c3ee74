"""What a controller that joined loses to the releases is told, part by part."""

from __future__ import annotations

from typing import Any

import yaml

from tests.unit.adopt.kubeadm_pods import kubeadm_pod, volume
from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.parts_that_go import parts_that_go
from upgrader.model.cluster import Host

PKI = "/etc/kubernetes/pki"


def _found(static: StaticPod, **chart: Any) -> list[str]:
    """What is said of it, beside a release whose pod has all of kubeadm's, with changes of its container."""
    plain = kubeadm_pod("kube-apiserver")
    spec = {**plain.pod["spec"], "containers": [{**plain.container, **chart}]}
    template = {"metadata": {"labels": plain.pod["metadata"]["labels"]}, "spec": spec}
    manifest = {"kind": "Deployment", "metadata": {"name": "kube-apiserver"}, "spec": {"template": template}}
    new = ControllerFacts(Host("c", "10.0.0.2"), {"kube-apiserver": static}, {})
    found = parts_that_go([new], ["", yaml.safe_dump(manifest)], PKI)
    return list(found.get("kube-apiserver on c", ()))


def test_nothing_is_said_where_nothing_goes() -> None:
    """kubeadm has made it as the release has it."""
    assert _found(kubeadm_pod("kube-apiserver")) == []


def test_each_part_that_goes_is_named() -> None:
    """Flags with their values; of variables the name alone, as a value may be a secret."""
    env = [{"name": "PROXY", "value": "http://user:password@proxy"}, {"name": "TZ", "value": "UTC"}]
    static = kubeadm_pod(
        "kube-apiserver",
        {"profiling": "false"},
        volume("audit", "/var/log/audit", writable=True),
        container={"env": env},
    )
    manifest = static.pod
    manifest["metadata"]["labels"]["team"] = "platform"
    static = StaticPod(static.component, yaml.safe_dump(manifest).encode(), static.flags, static.image)
    assert _found(static, env=[{"name": "TZ", "value": "UTC"}]) == [
        "--profiling=false",
        "the variable PROXY",
        "the volume /var/log/audit at /var/log/audit (writable)",
        "the label team=platform",
    ]


def test_flags_that_the_hand_over_changes_are_no_loss() -> None:
    """The release's own address and port are what the adoption is about."""
    assert _found(kubeadm_pod("kube-apiserver", {"advertise-address": "10.0.0.2", "bind-address": "::"})) == []
