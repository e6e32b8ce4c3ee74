"""The section `nodes` of `upgrader.yaml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.load import load_settings, read_folder
from upgrader.config.untrusted_folder import UntrustedFolder
from upgrader.errors import ConfigError
from upgrader.model.health_before import IntOrPercent
from upgrader.model.node_configuration import NodeConfiguration
from upgrader.model.node_settings import DetachPolicy, DrainPolicy, LeftAlone, NodePool, NodeSource, NodesSettings
from upgrader.model.surge import Surge
from upgrader.model.version import KubernetesVersion

SUM, OTHER = "a" * 64, "b" * 64
KUBELET = "nodes: {source: {kind: packages}, kubeletConfiguration:"
RUNTIME = "nodes: {source: {kind: packages}, containerRuntime:"


def load(folder: Path, nodes: str) -> NodesSettings | None:
    """The settings of a file with that section."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n" + nodes)
    return load_settings(folder, {}).nodes


def test_without_the_section_nodes_stay_as_they_are(tmp_path: Path) -> None:
    """Nobody's kubelets are upgraded unasked."""
    assert load(tmp_path, "") is None


def test_source_is_enough(tmp_path: Path) -> None:
    """Controllers and workers are pools of their own, one node at a time, of which none may fail."""
    found = load(tmp_path, "nodes: {source: {kind: packages}}\n")
    assert found == NodesSettings(NodeSource("packages"), (NodePool("controllers"), NodePool("workers")), 300.0)


def test_every_key_is_read(tmp_path: Path) -> None:
    """A pool's own drain replaces the section's; `workers` comes last wherever the file has it."""
    found = load(
        tmp_path,
        f"""nodes:
  source: {{kind: folder, path: "bin/{{version}}", sha256: {{v1.37.1: {{kubelet: {SUM}}}}}}}
  readyDeadline: 2m
  drain: {{deadline: 90s, onBlocked: skip-node}}
  pools:
    - {{name: workers, maxUnavailable: 10%}}
    - {{name: gpu, selector: {{pool: gpu}}, maxUnavailable: 2, maxFailed: 1, drain: {{onBlocked: force}}}}
""",
    )
    skip = DrainPolicy(90.0, "skip-node")
    assert found == NodesSettings(
        NodeSource("folder", str(tmp_path / "bin/{version}"), sha256={"v1.37.1": {"kubelet": SUM}}),
        (
            NodePool("controllers", drain=skip),
            NodePool("gpu", {"pool": "gpu"}, IntOrPercent(count=2), 1, DrainPolicy(300.0, "force")),
            NodePool("workers", {}, IntOrPercent(percent=10), drain=skip),
        ),
        120.0,
    )


@pytest.mark.parametrize(
    ("detach", "gpu", "found"),
    [
        ("{}", "", {"controllers": DetachPolicy(), "gpu": DetachPolicy(), "workers": DetachPolicy()}),
        (
            "{gracePeriod: 1s, deadline: 2m, pools: [controllers]}",
            "detach: {gracePeriod: 10m}",
            {"controllers": DetachPolicy(1, 120), "gpu": DetachPolicy(600)},
        ),
        ("{pools: [gpu, workers]}", "detach: {}", {"gpu": DetachPolicy(), "workers": DetachPolicy()}),
        ("{pools: []}", "", {}),
    ],
)
def test_pools_behind_a_load_balancer(tmp_path: Path, detach: str, gpu: str, found: dict[str, DetachPolicy]) -> None:
    """All of them, controllers too, or those that are named; a pool's own section stands for itself."""
    pool = f"{{name: gpu, selector: {{a: b}}, {gpu}}}"
    made = load(tmp_path, f"nodes: {{source: {{kind: packages}}, detach: {detach}, pools: [{pool}]}}")
    assert made and {pool.name: pool.detach for pool in made.pools if pool.detach} == found


@pytest.mark.parametrize(
    ("approval", "gpu", "found"),
    [
        ("{}", "", {"controllers": 3600.0, "gpu": 3600.0, "workers": 3600.0}),
        ("{deadline: 8h, pools: [controllers]}", "approval: {}", {"controllers": 28800.0, "gpu": 3600.0}),
        ("{pools: []}", "", {}),
    ],
)
def test_pools_that_wait_for_a_person(tmp_path: Path, approval: str, gpu: str, found: dict[str, float]) -> None:
    """All of them, controllers too, or those that are named; a pool's own section stands for itself."""
    pool = f"{{name: gpu, selector: {{a: b}}, {gpu}}}"
    made = load(tmp_path, f"nodes: {{source: {{kind: packages}}, approval: {approval}, pools: [{pool}]}}")
    assert made and {pool.name: pool.approval_seconds for pool in made.pools if pool.approval_seconds} == found


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ("nodes: {source: {kind: packages}, approval: {pools: [gpu]}}", "`approval.pools`: there is no pool 'gpu'"),
        ("nodes: {source: {kind: packages}, detach: {pools: [gpu]}}", "no pool 'gpu', only controllers, w"),
        ("nodes: {source: {kind: packages}, detach: {gracePeriod: soon}}", "gracePeriod"),
        ("nodes: {source: {kind: packages}, pools: [{name: workers, detach: {pools: []}}]}", "unknown key"),
        ("nodes: {source: {kind: packages}, leftAlone: [{}]}", "need either 'selector' or 'nodes'"),
        ("nodes: {source: {kind: packages}, leftAlone: [{selector: {a: b}, nodes: [c]}]}", "either 'selector' or"),
        ("nodes: {}", "source"),
        ("nodes: {source: {kind: floppy}}", "kind"),
        ("nodes: {source: {kind: folder}}", "a source of kind 'folder' needs key 'path'"),
        ("nodes: {source: {kind: url, url: 'http://x'}}", "not an address that starts with https://"),
        ("nodes: {source: {kind: packages, url: 'https://x'}}", "a source of kind 'packages' has no key 'url'"),
        ("nodes: {source: {kind: packages, sha256: {v1.37.1: {kubelet: abc}}}}", "is not a SHA-256"),
        ("nodes: {source: {kind: packages, sha256: {new: {}}}}", "not a Kubernetes version"),
        ("nodes: {source: {kind: packages}, pools: [{name: gpu}]}", "pool 'gpu' needs a key 'selector'"),
        ("nodes: {source: {kind: packages}, pools: [{name: Gpu}]}", "is not a pool's name"),
        ("nodes: {source: {kind: packages}, pools: [{name: workers, selector: {a: b}}]}", "has no key 'selector'"),
        ("nodes: {source: {kind: packages}, pools: [{name: controllers, selector: {a: b}}]}", "one at a time"),
        ("nodes: {source: {kind: packages}, pools: [{name: workers}, {name: workers}]}", "two pools are named"),
        ("nodes: {source: {kind: packages}, drain: {onBlocked: pray}}", "onBlocked"),
        *(
            (f"{KUBELET} {{{name}: static}}}}", f"field '{name}' can't be set here: the kubelet doesn't start")
            for name in ("cpuManagerPolicy", "cpuManagerPolicyOptions", "memoryManagerPolicy", "reservedMemory")
        ),
        (
            f"{KUBELET} {{cgroupDriver: systemd}}}}",
            "field 'cgroupDriver' can't be set here: running pods",
        ),
        (f"{KUBELET} {{evictionHard: {{1: a}}}}}}", "the key 1 of evictionHard is not a string"),
        (f"{KUBELET} {{maxPods: .inf}}}}", "the value inf of maxPods is not a JSON value"),
        (f"{KUBELET} [maxPods]}}", "kubeletConfiguration"),
        (f"{RUNTIME} {{}}}}", "set 'version' and 'source', or 'config'"),
        (f"{RUNTIME} {{version: '2.1.4'}}}}", "'version' and 'source' must be set together"),
        (f"{RUNTIME} {{version: v2.1.4, source: {{kind: packages}}}}}}", "is not a version of containerd"),
        (f"{RUNTIME} {{version: '2', source: {{kind: url, url: 'https://x'}}}}}}", "needs key 'sha256'"),
        (f"{RUNTIME} {{version: '2', source: {{kind: packages, path: x}}}}}}", "has no key 'path'"),
        (f"{RUNTIME} {{version: '2', source: {{kind: url, url: 'ftp://x', sha256: {SUM}}}}}}}", "https://"),
        ("nodes: {source: {kind: packages, architectures: {arm64: {sha256: {}}}}}", "has no key 'architectures'"),
        ("nodes: {source: {kind: folder, path: a, architectures: {x86: {sha256: {}}}}}", "x86"),
        ("nodes: {source: {kind: folder, path: a, architectures: {arm: {url: b, sha256: {}}}}}", "https://"),
        (
            "nodes: {source: {kind: folder, path: a, architectures: {arm: {url: 'https://b', sha256: {}}}}}",
            "architecture 'arm' of a source of kind 'folder' has no key 'url'",
        ),
        (f"{RUNTIME} {{config: missing.toml}}}}", "there is no file"),
    ],
)
def test_bad_input_is_told_with_its_line(tmp_path: Path, nodes: str, told: str) -> None:
    """The message has the file, the line and what is wrong."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, nodes + "\n")
    assert told in caught.value.message
    assert "upgrader.yaml:2" in caught.value.message


def test_nodes_that_are_left_alone_are_read_with_their_lines(tmp_path: Path) -> None:
    """By labels or by names; the place is the same whatever folder the file is in, as a saved plan is bound to it."""
    text = "nodes:\n  source: {kind: packages}\n  leftAlone:\n  - selector: {os: w}\n  - nodes: [v-1, v-2]\n"
    found = load(tmp_path, text)
    assert found is not None
    assert found.left_alone == (
        LeftAlone("upgrader.yaml:5", {"os": "w"}),
        LeftAlone("upgrader.yaml:6", names=("v-1", "v-2")),
    )


def test_fields_of_the_kubelet_are_read(tmp_path: Path) -> None:
    """As the file has them, whatever they are: the kubelet knows its own fields best."""
    found = load(tmp_path, KUBELET + " {maxPods: 150, clusterDNS: [10.0.0.1], featureGates: {A: true}, x: null}}\n")
    assert found is not None
    fields = {"maxPods": 150, "clusterDNS": ["10.0.0.1"], "featureGates": {"A": True}, "x": None}
    assert found.configuration == NodeConfiguration(fields)


def test_container_runtime_is_read(tmp_path: Path) -> None:
    """Paths are the folder's; another content of the file is another configuration."""
    config = tmp_path / "containerd.toml.j2"
    config.write_text("version = 2\n")
    archive = f"{{kind: folder, path: 'c-{{version}}.tgz', sha256: {SUM}}}"
    text = RUNTIME + f" {{version: '2.1.4', source: {archive}, config: containerd.toml.j2}}}}\n"
    found = load(tmp_path, text)
    assert found is not None and found.configuration.runtime is not None
    runtime = found.configuration.runtime
    assert runtime.variables == {
        "version": "2.1.4",
        "source": {"kind": "folder", "path": str(tmp_path / "c-2.1.4.tgz"), "sha256": SUM},
        "config": str(config),
    }
    assert str(found.configuration) == "containerd: 2.1.4 and its configuration"
    config.write_text("version = 3\n")
    again = load(tmp_path, text)
    assert again is not None and again.configuration.fingerprint != found.configuration.fingerprint
    packages = load(tmp_path, RUNTIME + " {version: '1.7', source: {kind: packages}}}\n")
    assert packages is not None
    assert packages.configuration.variables == {
        "node_container_runtime": {"version": "1.7", "source": {"kind": "packages"}}
    }
    only = load(tmp_path, RUNTIME + " {config: containerd.toml.j2}}\n")
    assert only is not None and str(only.configuration) == "containerd: its configuration"


def test_strange_folder_leads_nobody_out_of_it(tmp_path: Path) -> None:
    """Offline, a link to another file of this machine isn't followed."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "c.toml").symlink_to("/etc/hostname")
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n" + RUNTIME + " {config: c.toml}}\n")
    reading = read_folder(folder, {}, guard=UntrustedFolder(folder))
    (problem,) = reading.problems
    assert "upgrader.yaml:2: " in problem.message and "is outside the folder" in problem.message
    (folder / "c.toml").unlink()
    (folder / "c.toml").mkdir()
    assert "there is no file" in read_folder(folder, {}).problems[0].message


def test_architectures_have_sources_of_their_own(tmp_path: Path) -> None:
    """The playbooks get them all, and know each node's; what isn't named is that of all others."""
    own = f"architectures: {{arm64: {{sha256: {{v1.37.1: {{kubelet: {OTHER}}}}}}}, arm: {{path: b, sha256: {{}}}}}}"
    source = f"{{kind: folder, path: 'a/{{version}}', sha256: {{v1.37.1: {{kubelet: {SUM}}}}}, {own}}}"
    archives = f"architectures: {{arm64: {{path: 'arm-{{version}}.tgz', sha256: {OTHER}}}, s390x: {{sha256: {OTHER}}}}}"
    runtime = f"{{version: '2', source: {{kind: folder, path: c.tgz, sha256: {SUM}, {archives}}}}}"
    found = load(tmp_path, f"nodes: {{source: {source}, containerRuntime: {runtime}}}\n")
    assert found is not None and found.configuration.runtime is not None
    place = str(tmp_path / "a/v1.37.1")
    assert found.source.at(KubernetesVersion(1, 37, 1)) == {
        "kind": "folder",
        "path": place,
        "sha256": {"kubelet": SUM},
        "architectures": {
            "arm64": {"kind": "folder", "path": place, "sha256": {"kubelet": OTHER}},
            "arm": {"kind": "folder", "path": str(tmp_path / "b"), "sha256": {}},
        },
    }
    assert found.configuration.runtime.source["architectures"] == {
        "arm64": {"path": str(tmp_path / "arm-2.tgz"), "sha256": OTHER},
        "s390x": {"path": str(tmp_path / "c.tgz"), "sha256": OTHER},
    }
    assert found.configuration.runtime.archives == (str(tmp_path / "c.tgz"), str(tmp_path / "arm-2.tgz"))


SURGE = "{nodes: 2, add: add.yml, remove: plays/remove.yml, deadline: 10m}"


def _pool(surge: str) -> str:
    return f"nodes: {{source: {{kind: packages}}, pools: [{{name: workers, surge: {surge}}}]}}\n"


def test_surge_is_read(tmp_path: Path) -> None:
    """Its playbooks are the folder's; the pool has steps around its own."""
    (tmp_path / "plays").mkdir()
    for name in ("add.yml", "plays/remove.yml"):
        (tmp_path / name).write_text("[]\n")
    found = load(tmp_path, _pool(SURGE))
    assert found is not None
    pool = found.pools[-1]
    assert pool.surge == Surge(2, tmp_path / "add.yml", tmp_path / "plays/remove.yml", 600.0)
    assert pool.steps == ("surge-workers", "nodes-workers", "end-surge-workers")
    assert found.pools[0].steps == ("nodes-controllers",)


@pytest.mark.parametrize(
    ("surge", "told"),
    [
        ("{nodes: 0, add: a.yml, remove: a.yml}", "nodes.pools.surge.nodes"),
        ("{nodes: 1, add: a.yml}", "key 'nodes.pools.surge.remove' is missing"),
        ("{nodes: 1, remove: a.yml}", "key 'nodes.pools.surge.add' is missing"),
        ("{nodes: 1, add: '', remove: a.yml}", "'nodes.pools.surge.add' must not be empty"),
        ("{nodes: 1, add: missing.yml, remove: a.yml}", "'nodes.pools.surge.add' names no playbook: there is no file"),
        (
            "{nodes: 1, add: a.yml, remove: missing.yml}",
            "'nodes.pools.surge.remove' names no playbook: there is no file",
        ),
    ],
)
def test_surge_that_can_not_work_is_told_with_its_line(tmp_path: Path, surge: str, told: str) -> None:
    """Before anything of a run begins: with file, line and key."""
    (tmp_path / "a.yml").write_text("[]\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, _pool(surge))
    assert told in caught.value.message
    assert "upgrader.yaml:2" in caught.value.message


def test_surge_playbook_of_a_stranger_is_only_looked_for_inside_the_folder(tmp_path: Path) -> None:
    """A link out of the folder is not followed, and the rest of the section isn't judged by it."""
    (tmp_path / "remove.yml").write_text("[]\n")
    (tmp_path / "add.yml").symlink_to("/etc/passwd")
    (tmp_path / "upgrader.yaml").write_text(
        "kubernetesVersion: v1.37.1\n" + _pool("{nodes: 1, add: add.yml, remove: remove.yml}")
    )
    reading = read_folder(tmp_path, {}, guard=UntrustedFolder(tmp_path))
    assert reading.settings is not None and reading.settings.nodes is None
    assert [problem.message for problem in reading.problems] == [
        f"{tmp_path}/upgrader.yaml:2: {tmp_path}/add.yml is not opened: it is outside the folder"
    ]


def test_step_of_a_surge_is_no_other_step(tmp_path: Path) -> None:
    """A playbook of the pipeline with its name would be taken for it in a journal."""
    for name in ("add.yml", "surge-workers.yml"):
        (tmp_path / name).write_text("[]\n")
    text = _pool("{nodes: 1, add: add.yml, remove: add.yml}") + "pipeline: [{playbook: surge-workers.yml}]\n"
    with pytest.raises(ConfigError, match="'surge-workers' is the name of a built-in step"):
        load(tmp_path, text)
