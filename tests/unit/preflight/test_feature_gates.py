"""Feature gates that the target doesn't know, has locked, or deprecates."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.preflight.conftest import World, workload
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.feature_gates import check_feature_gates

V = KubernetesVersion


def start(world: World, *arguments: str, component: str = "kube-apiserver") -> None:
    """Let the run start a component with these arguments."""
    world.manifests["kubernetes"] = workload({"name": component, "command": [component], "args": list(arguments)})


def configure(world: World, *texts: str, arguments: tuple[str, ...] = ("--config=/etc/config.conf",)) -> None:
    """Let the run start kube-proxy with a configuration."""
    start(world, *arguments, component="kube-proxy")
    for number, text in enumerate(texts):
        config = {"kind": "ConfigMap", "metadata": {"name": f"kube-proxy-{number}"}, "data": {"config.conf": text}}
        world.manifests["kubernetes"] += f"---\n{yaml.safe_dump(config)}"


def test_gate_that_is_gone_blocks_the_run(world: World) -> None:
    """Release, component, gate and minor are named."""
    start(world, "--feature-gates=SidecarContainers=true")
    (found,) = world.find(check_feature_gates).values()
    assert (found.id, found.severity) == ("feature-gates.removed", "error")
    assert found.title == "release kubernetes: kube-apiserver v1.37.1 doesn't know feature gate SidecarContainers"
    assert found.diagnosis.startswith("SidecarContainers: removed in v1.37\nContainer kube-apiserver of Deployment")


@pytest.mark.parametrize(
    ("target", "why"),
    [(V(1, 36, 0), "introduced in v1.37"), (V(1, 37, 0), None)],
)
def test_gate_of_a_later_version(world: World, target: KubernetesVersion, why: str | None) -> None:
    """It blocks the run until the target has it."""
    world.target = target
    start(world, "--feature-gates=EtcdRangeStream=true")
    found = world.find(check_feature_gates)
    assert [finding.diagnosis.split("\n")[0] for finding in found.values()] == (
        [f"EtcdRangeStream: {why}"] if why else []
    )


def test_typing_error_blocks_the_run(world: World) -> None:
    """No version knows it."""
    start(world, "--feature-gates=Bogus=true")
    assert "Bogus: no version from v1.32" in world.find(check_feature_gates)["feature-gates.removed"].diagnosis


def test_gate_that_a_patch_may_have_brought_is_a_warning(world: World) -> None:
    """Nobody knows of a later patch than was read, except that it takes no gate away, and brings back none."""
    world.target = V(1, 36, 99)
    start(world, "--feature-gates=EtcdRangeStream=true,Bogus=true")
    (found,) = world.find(check_feature_gates).values()
    assert (found.id, found.severity) == ("feature-gates.unsure", "warning")
    assert "EtcdRangeStream: introduced in v1.37\nBogus: no version" in found.diagnosis
    world.target = V(1, 37, 99)
    start(world, "--feature-gates=SidecarContainers=true")
    assert set(world.find(check_feature_gates)) == {"feature-gates.removed"}


def test_locked_gate_blocks_the_run(world: World) -> None:
    """Only where it is set to the other value."""
    start(world, "--feature-gates=InOrderInformers=false")
    (found,) = world.find(check_feature_gates).values()
    assert (found.id, found.severity) == ("feature-gates.locked", "error")
    assert found.title.endswith("v1.37.1 refuses InOrderInformers=false")
    assert found.diagnosis.startswith("InOrderInformers=false: locked to true\n")
    world.target = V(1, 35, 0)
    assert world.find(check_feature_gates) == {}


def test_gate_that_will_go_is_a_warning(world: World) -> None:
    """One whose feature is complete, and one that is deprecated: it works now, and blocks the upgrade after next."""
    start(world, "--feature-gates=InOrderInformers=true,AllowDNSOnlyNodeCSR=true")
    (found,) = world.find(check_feature_gates).values()
    assert (found.id, found.severity) == ("feature-gates.deprecated", "warning")
    assert "InOrderInformers: in every cluster now (stage GA, locked to true)" in found.diagnosis
    assert "AllowDNSOnlyNodeCSR: deprecated (stage Deprecated)" in found.diagnosis


@pytest.mark.parametrize(
    "arguments",
    [
        ("--feature-gates=APIServerIdentity=false,AllAlpha=true,AllBeta=false",),
        ("--feature-gates", "kube:APIServerIdentity=false"),
        ("--feature-gates=other:Bogus=true", "--feature-gates=$(GATES)", "--feature-gates=$(NAME)=true"),
        ("--feature-gates=", "--feature-gates=Bogus", "--feature-gates"),
        ("--", "--feature-gates=Bogus=true"),
        ("--secure-port=6443",),
    ],
)
def test_what_is_known_or_is_no_gate_of_ours_is_no_finding(world: World, arguments: tuple[str, ...]) -> None:
    """Gates in alpha and beta, those of other API servers, variables, and what isn't as the flag wants it."""
    start(world, *arguments)
    assert world.find(check_feature_gates) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--feature-gates=kube:Bogus=true",),
        ("--feature_gates", "APIServerIdentity=true, Bogus=true"),
        ("--feature-gates=Bogus=true", "--feature-gates=APIServerIdentity=true"),
    ],
)
def test_every_way_to_set_it_is_found(world: World, arguments: tuple[str, ...]) -> None:
    """The flag adds up when it is given twice."""
    start(world, *arguments)
    assert set(world.find(check_feature_gates)) == {"feature-gates.removed"}


def test_emulated_version_unlocks(world: World) -> None:
    """A component that emulates an older version has its own gates, with that one's locks."""
    start(world, "--emulated-version=1.35", "--feature-gates=InOrderInformers=false")
    assert world.find(check_feature_gates) == {}
    start(world, "--emulated-version=1.31", "--feature-gates=InOrderInformers=false")
    assert world.find(check_feature_gates) == {}, "nothing is known of v1.31"
    start(world, "--emulated-version=1.36", "--feature-gates=SidecarContainers=true")
    assert set(world.find(check_feature_gates)) == {"feature-gates.removed"}


@pytest.mark.parametrize(
    ("emulated", "gates", "why"),
    [
        ("1.36", "EtcdRangeStream=true", "EtcdRangeStream: introduced in v1.37, and v1.36 is emulated"),
        ("kube=1.36", "EtcdRangeStream=false", "EtcdRangeStream: introduced in v1.37, and v1.36 is emulated"),
        ("1.36", "InOrderInformers=false", "InOrderInformers=false: locked to true"),
    ],
)
def test_gates_are_judged_as_in_the_emulated_version(world: World, emulated: str, gates: str, why: str) -> None:
    """A component refuses what comes later than what it emulates, and what is locked there already."""
    start(world, f"--emulated-version={emulated}", f"--feature-gates={gates}")
    (found,) = world.find(check_feature_gates).values()
    assert found.blocking and found.diagnosis.startswith(f"{why}\n")


def test_configuration_of_kube_proxy_is_read(world: World) -> None:
    """In its place the flag counts for nothing."""
    configure(world, "kind: KubeProxyConfiguration\nfeatureGates: {Bogus: true, InOrderInformers: false}\n")
    found = world.find(check_feature_gates)
    assert set(found) == {"feature-gates.removed", "feature-gates.locked"}
    assert found["feature-gates.locked"].title.endswith("InOrderInformers=false")
    fine = "kind: KubeProxyConfiguration\nfeatureGates: {APIServerIdentity: true, AllBeta: true}\n"
    configure(world, fine, arguments=("--config=/etc/config.conf", "--feature-gates=Bogus=true"))
    assert world.find(check_feature_gates) == {}


@pytest.mark.parametrize(
    "text",
    [
        "kind: KubeProxyConfiguration\n",
        "kind: KubeProxyConfiguration\nfeatureGates: [Bogus]\n",
        "# KubeProxyConfiguration\nkind: Other\nfeatureGates: {Bogus: true}\n",
        "[KubeProxyConfiguration",
        "kind: KubeProxyConfiguration\nday: 2020-13-01\n",
        f"kind: KubeProxyConfiguration\na: {'[' * 5000}\n",
        "KubeProxyConfiguration",
    ],
)
def test_other_configuration_is_no_finding(world: World, text: str) -> None:
    """Nor what isn't one, of which kube-proxy will complain itself."""
    configure(world, text)
    assert world.find(check_feature_gates) == {}


def test_version_without_data_is_unknown(world: World) -> None:
    """Only where a gate is set: without one there is nothing to compare."""
    world.target = V(1, 99, 0)
    start(world, "--secure-port=6443")
    assert world.find(check_feature_gates) == {}
    start(world, "--feature-gates=APIServerIdentity=true")
    (found,) = world.find(check_feature_gates).values()
    assert (found.id, found.severity) == ("feature-gates.no-data", "unknown")


def test_shell_is_left_to_the_flags(world: World) -> None:
    """The check of the flags says that they can't be read."""
    shell = ["sh", "-c", "kube-apiserver --feature-gates=Bogus=true"]
    world.manifests["kubernetes"] = workload({"name": "kube-apiserver", "command": shell})
    assert world.find(check_feature_gates) == {}
