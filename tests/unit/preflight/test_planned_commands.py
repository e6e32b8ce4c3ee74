"""Which containers of a manifest run a component, and with which flags."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.preflight.conftest import World, workload
from upgrader.model.version import KubernetesVersion
from upgrader.steps.release.planned_commands import PlannedCommand, planned_commands

V = KubernetesVersion


def commands(world: World, manifest: str) -> list[PlannedCommand]:
    """Those of a release that is to have this manifest."""
    world.manifests["kubernetes"] = manifest
    context = world.context()
    return list(planned_commands(context.changing, context.target))


def names(command: PlannedCommand) -> list[str] | None:
    """The flags of a command."""
    return None if command.flags is None else [given.name for given in command.flags]


@pytest.mark.parametrize(
    ("container", "component"),
    [
        ({"name": "kube-apiserver", "command": ["kube-apiserver"], "args": ["--a=1"]}, "kube-apiserver"),
        ({"name": "main", "command": ["/usr/local/bin/kube-proxy", "--a=1"]}, "kube-proxy"),
        ({"name": "kube-scheduler", "args": ["--a=1"]}, "kube-scheduler"),
        ({"name": "main", "args": ["kube-controller-manager", "--a=1"]}, "kube-controller-manager"),
        ({"name": "kube-proxy", "command": ["kube-proxy"], "args": [5, "--a=1", None]}, "kube-proxy"),
        (
            {"name": "kube-proxy", "command": ["/x/sh", "-c", 'exec "$0" "$@"', "kube-proxy"], "args": ["--a=1"]},
            "kube-proxy",
        ),
    ],
)
def test_command_of_a_component_is_read(world: World, container: dict[str, Any], component: str) -> None:
    """Its flags may be in `command`, in `args` or in both; a path to the program, or none, makes no difference."""
    (command,) = commands(world, workload(container))
    assert (command.component, names(command)) == (component, ["a"])
    assert command.place == f"Container {container['name']} of Deployment kube-system/x."


@pytest.mark.parametrize(
    "container",
    [
        {"name": "kube-proxy", "command": ["/bin/sh", "-c", "exec kube-proxy --bogus"]},
        {"name": "kube-proxy", "command": ["/go-runner", "--log-file=x", "/kube-proxy", "--bogus"]},
        {"name": "kube-proxy", "args": ["sh", "-c", "kube-proxy --bogus"]},
    ],
)
def test_command_that_another_program_starts_is_not_misread(world: World, container: dict[str, Any]) -> None:
    """A shell's or a wrapper's arguments aren't the component's: its flags aren't known."""
    (command,) = commands(world, workload(container))
    assert command.flags is None and command.value("bogus") is None


@pytest.mark.parametrize(
    "manifest",
    [
        workload({"name": "proxy", "command": ["haproxy", "--bogus"]}, {"name": "main", "args": ["--bogus"]}),
        workload({"name": "address", "command": ["/bin/sh", "-c", "kube-apiserver --bogus"]}),
        workload({"name": "kube-proxy", "args": ["--bogus"]}, kind="Job"),
        workload("no container", {"command": "kube-proxy --bogus"}),  # type: ignore[arg-type]
        "kind: Deployment\nmetadata: {name: x}\nspec: {template: {spec: {containers: {a: b}}}}\n",
        "kind: Deployment\nmetadata: {name: x}\nspec: [kube-proxy]\n",
        "kind: Deployment\nmetadata: {name: x}\n",
    ],
)
def test_other_containers_are_none_of_our_business(world: World, manifest: str) -> None:
    """Neither sidecars, nor other kinds, nor what isn't as the API wants it, which the API says itself."""
    assert commands(world, manifest) == []


def test_init_containers_are_read(world: World) -> None:
    """kube-proxy has a mode of its own for them."""
    init = [{"name": "setup", "command": ["kube-proxy", "--init-only"]}]
    (command,) = commands(world, workload(kind="DaemonSet", initContainers=init))
    assert names(command) == ["init-only"]


def test_unchanged_release_is_not_read(world: World) -> None:
    """What the run doesn't change stays as it is."""
    assert commands(world, workload({"name": "web"})) == []
    context = World().context()
    assert list(planned_commands(context.changing, context.target)) == []


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.k8s.io/kube-proxy:v1.36.3", V(1, 36, 3)),
        ("localhost:5000/k8s/kube-proxy:v1.36.3-eks.1@sha256:abc", V(1, 36, 3)),
        ("registry.k8s.io/kube-proxy@sha256:abc", V(1, 37, 1)),
        ("example.com/tools:v1.36.3", V(1, 37, 1)),
        ("example.com/kube-proxy:latest", V(1, 37, 1)),
    ],
)
def test_version_is_that_of_the_image(world: World, image: str, version: KubernetesVersion) -> None:
    """An image of another version, by values of its own, is judged as that; what tells nothing is the target's."""
    (command,) = commands(world, workload({"name": "kube-proxy", "image": image}))
    assert command.version == version


def test_last_value_counts(world: World) -> None:
    """As a component reads it."""
    (command,) = commands(world, workload({"name": "kube-proxy", "args": ["--a=1", "--a", "2", "--b"]}))
    assert (command.value("a"), command.value("b"), command.value("c")) == ("2", "", None)
