"""Flags that the target doesn't know, or deprecates, in what the run installs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.preflight.conftest import World, workload
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.flags import check_flags

V = KubernetesVersion


def start(world: World, component: str, *arguments: str) -> None:
    """Let the run start a component with these arguments."""
    world.manifests["kubernetes"] = workload({"name": component, "command": [component], "args": list(arguments)})


def test_flag_that_is_gone_blocks_the_run(world: World) -> None:
    """Release, container, flag and minor are named, and what the last version said of it."""
    start(world, "kube-controller-manager", "--concurrent-service-syncs=2", "--leader-elect=true")
    found = world.find(check_flags)["flags.removed"]
    assert found.severity == "error"
    assert found.title == (
        "release kubernetes: kube-controller-manager v1.37.1 doesn't know --concurrent-service-syncs"
    )
    assert found.diagnosis.startswith(
        "--concurrent-service-syncs: removed in v1.37\n"
        "Container kube-controller-manager of Deployment kube-system/x. The component would exit at every start"
    )
    start(world, "kube-apiserver", "--cloud-provider=aws")
    found = world.find(check_flags)["flags.removed"]
    assert "removed in v1.33; deprecated before: will be removed in a future version" in found.diagnosis


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ("replicas: 1\nextraArgs:\n  secure-prot: 1\n", " ({}:3)"),
        ("scheduler: {extraArgs: {v: 1}}\ncontrollerManager: {}\nargs:\n- --secure-prot=1\n", " ({}:4)"),
        ("scheduler:\n  secure-prot: 1\ncontrollerManager:\n  extraArgs:\n    secure-prot: 1\n", " ({}:5)"),
        ("scheduler:\n  extraArgs: {secure-prot: 1}\n", ""),
        ("a:\n  secure-prot: 1\nb:\n  secure-prot: 1\n", ""),
        ("replicas: 1\n", ""),
        ("replicas: [\n", ""),
        ("base: &base {extraArgs: {}}\n<<: *base\n", ""),
    ],
)
def test_flag_is_found_in_the_values(world: World, tmp_path: Path, values: str, place: str) -> None:
    """The error says in which file and line the flag is set, of several components in that one's part; what can't be
    told apart or read has no line.
    """
    file = tmp_path / "kubernetes.yaml"
    file.write_text(values)
    world.values_files["kubernetes"] = file
    start(world, "kube-controller-manager", "--secure-prot=1")
    found = world.find(check_flags)["flags.removed"]
    assert found.diagnosis.startswith(f"--secure-prot{place.format(file)}: no version")


def test_flag_that_is_still_there_is_no_finding(world: World) -> None:
    """The same command at the version that runs now; and the flags that every component has."""
    world.target = V(1, 36, 9)
    start(world, "kube-controller-manager", "--concurrent-service-syncs=2", "-v", "2", "-v=4", "--v=1", "--help")
    assert world.find(check_flags) == {}


def test_typing_error_blocks_the_run(world: World) -> None:
    """No version knows it; underscores aren't one."""
    start(world, "kube-apiserver", "--secure-prot=6443", "--etcd_servers=https://127.0.0.1:2379")
    found = world.find(check_flags)["flags.removed"]
    assert found.title.endswith("doesn't know --secure-prot")
    assert "--secure-prot: no version from v1.32 to v1." in found.diagnosis


def test_flag_of_another_component_blocks_the_run(world: World) -> None:
    """Each component has flags of its own."""
    start(world, "kube-scheduler", "--etcd-servers=https://127.0.0.1:2379")
    assert "flags.removed" in world.find(check_flags)


def test_flag_that_comes_later_blocks_the_run(world: World) -> None:
    """Values that were written for the next version don't work with this one."""
    world.target = V(1, 36, 3)
    start(world, "kube-controller-manager", "--concurrent-disruption-syncs=2")
    assert "introduced in v1.37" in world.find(check_flags)["flags.removed"].diagnosis


def test_one_dash_blocks_the_run(world: World) -> None:
    """A component takes it for several short flags, and ends."""
    start(world, "kube-apiserver", "-secure-port=6443")
    assert world.find(check_flags)["flags.removed"].title.endswith("doesn't know -secure-port")


def test_deprecated_flag_is_a_warning(world: World) -> None:
    """With the component's own words, which name its successor."""
    start(world, "kube-proxy", "--healthz-port=10256")
    (found,) = world.find(check_flags).values()
    assert (found.id, found.severity) == ("flags.deprecated", "warning")
    assert "Please use --healthz-bind-address instead." in found.diagnosis


def test_many_flags_are_one_finding(world: World) -> None:
    """The title names three, the diagnosis all."""
    start(world, "kube-apiserver", *(f"--bogus-{number}" for number in range(5)))
    found = world.find(check_flags)["flags.removed"]
    assert found.title.endswith("--bogus-0, --bogus-1, --bogus-2 and 2 more") and "--bogus-4" in found.diagnosis


@pytest.mark.parametrize("target", [V(1, 31, 9), V(1, 99, 0), V(2, 33, 0)])
def test_version_without_data_is_unknown(world: World, target: KubernetesVersion) -> None:
    """What could not be compared is not known to work, whatever the flags are."""
    world.target = target
    start(world, "kube-apiserver", "--secure-port=6443")
    (found,) = world.find(check_flags).values()
    assert (found.id, found.severity) == ("flags.no-data", "unknown")
    assert f"doesn't know v{target.major}.{target.minor}." in found.diagnosis


def test_run_that_starts_no_component_needs_no_data(world: World) -> None:
    """A release of something else has no flags to compare."""
    world.target = V(1, 99, 0)
    world.manifests["web"] = workload({"name": "web", "args": ["--bogus"]})
    assert world.find(check_flags) == {}


def test_shell_is_a_warning(world: World) -> None:
    """What it starts, and how, can't be told: nothing is claimed of its flags, and nothing is blocked."""
    world.manifests["kubernetes"] = workload({"name": "kube-proxy", "command": ["sh", "-c", "kube-proxy --bogus"]})
    (found,) = world.find(check_flags).values()
    assert (found.id, found.severity) == ("flags.unread", "warning")


def test_version_of_an_api_that_is_gone_blocks_the_run(world: World) -> None:
    """With the minor since which it isn't served; what the target has, or what stands for many, is no finding."""
    gone = "certificates.k8s.io/v1alpha1=true"
    start(world, "kube-apiserver", f"--runtime-config=api/beta=true,v1=true,batch/v1=true,{gone}")
    (found,) = world.find(check_flags).values()
    assert (found.id, found.severity) == ("flags.runtime-config", "error")
    assert found.title == (
        f"release kubernetes: kube-apiserver v1.37.1 doesn't serve the API versions set by --runtime-config={gone}"
    )
    assert found.diagnosis.startswith(f"--runtime-config={gone}: not served since v1.37\nContainer kube-apiserver")
    world.target = V(1, 36, 9)
    assert world.find(check_flags) == {}


@pytest.mark.parametrize(
    "entry", ["certificates.k8s.io/v1alpha1=false", "flowcontrol.apiserver.k8s.io/v1beta3/flowschemas=true"]
)
def test_runtime_config_that_does_nothing_any_more_is_a_warning(world: World, entry: str) -> None:
    """What is switched off, and what the program that runs now doesn't serve either."""
    start(world, "kube-apiserver", f"--runtime-config={entry}")
    (found,) = world.find(check_flags).values()
    assert (found.id, found.severity) == ("flags.runtime-config", "warning")


def test_runtime_config_of_an_emulated_minor_is_judged_by_that(world: World) -> None:
    """The emulated minor serves it; and a version that comes later is in no program yet."""
    world.target = V(1, 37, 1)
    start(world, "kube-apiserver", "--emulated-version=1.36", "--runtime-config=certificates.k8s.io/v1alpha1=true")
    assert world.find(check_flags) == {}
    world.target = V(1, 36, 9)
    start(world, "kube-apiserver", "--runtime-config=lifecycle.k8s.io/v1alpha1=true")
    found = world.find(check_flags)["flags.runtime-config"]
    assert found.severity == "error" and "comes with a later version" in found.diagnosis
