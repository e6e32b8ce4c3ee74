"""Which revision a checkpoint was made of."""

from __future__ import annotations

import hashlib
import json

import pytest
import yaml

from upgrader.model.release import Revision
from upgrader.recover.steps.revision_match import Checkpoint, matching, rendered

SPACE, NAME = "kube-system", "kube-apiserver"


def manifest(*args: str, image: str = "kube-apiserver:v1.36.3", config: str = "a", kind: str = "Deployment") -> str:
    """A release's manifest: a ConfigMap, and a workload that mounts it."""
    pod = {
        "initContainers": [{"name": "address", "image": "haproxy:2.6", "command": ["/bin/sh", "address.sh"]}],
        "containers": [{"name": NAME, "image": image, "command": ["kube-apiserver"], "args": list(args)}],
        "volumes": [{"name": "proxy", "configMap": {"name": "proxy"}}, {"name": "pki", "hostPath": {"path": "/pki"}}],
    }
    documents = [
        {"kind": "ConfigMap", "metadata": {"name": "proxy"}, "data": {"proxy.sh": config}},
        {"kind": kind, "metadata": {"name": NAME}, "spec": {"template": {"spec": pod}}},
    ]
    return yaml.safe_dump_all(documents)


def checkpoint(number: int, *args: str, config: str = "a", **pod: str) -> Checkpoint:
    """The generation that the pod-checkpointer makes of such a pod: further fields, and files instead of ConfigMaps."""
    found = rendered(manifest(*args, **pod), SPACE, NAME)
    assert found is not None
    spec = json.loads(json.dumps(found.spec["template"]["spec"]))
    for item in (*spec["initContainers"], *spec["containers"]):
        item["imagePullPolicy"] = "IfNotPresent"
    sha = hashlib.sha256(config.encode()).hexdigest()
    entries = {"volumes": {"sha256": ""}, "manifest.json": {"sha256": "x"}, "volumes/proxy/proxy.sh": {"sha256": sha}}
    record = {"schema": 1, "number": number, "entries": entries}
    return Checkpoint.parse(number, json.dumps({"spec": spec}).encode(), json.dumps(record).encode())


def chosen(manifests: dict[int, str], *checkpoints: Checkpoint) -> int | None:
    """The number of the revision that is chosen."""
    revisions = tuple(Revision(number, "superseded") for number in manifests)
    found = matching(revisions, lambda r: rendered(manifests[r.number], SPACE, NAME), checkpoints)
    return found[0].number if found else None


CASES = {
    "the revision with its arguments": ({1: manifest("--a"), 2: manifest("--a", "--bad")}, 1),
    "the newest of equal ones": ({1: manifest("--a"), 2: manifest("--a"), 3: manifest("--bad")}, 2),
    "a revision of another image isn't it": ({1: manifest("--a"), 2: manifest("--a", image="other")}, 1),
    "a revision with another ConfigMap isn't it": ({1: manifest("--a"), 2: manifest("--a", config="bad")}, 1),
    "the kind of the workload doesn't matter": ({1: manifest("--a", kind="DaemonSet"), 2: manifest("--bad")}, 1),
    "arguments in another order are others": ({1: manifest("--b", "--a")}, None),
    "none": ({1: manifest("--bad")}, None),
    "a revision without the workload is passed over": ({1: manifest("--a"), 2: "kind: ConfigMap\n"}, 1),
}


@pytest.mark.parametrize(("manifests", "number"), CASES.values(), ids=CASES)
def test_revision_of_a_checkpoint(manifests: dict[int, str], number: int | None) -> None:
    """The newest good revision whose containers and configuration are those of the checkpoint."""
    assert chosen(manifests, checkpoint(7, "--a")) == number


def test_order_of_arguments_counts() -> None:
    """The last of two equal flags wins, so that the same flags in another order are something else."""
    assert chosen({1: manifest("--x=1", "--x=2")}, checkpoint(7, "--x=2", "--x=1")) is None


def test_checkpoint_in_use_comes_first() -> None:
    """What serves now is better known to work than a newer standby pod that isn't in use."""
    manifests = {1: manifest("--a"), 2: manifest("--b")}
    assert chosen(manifests, checkpoint(3, "--a"), checkpoint(4, "--b")) == 1


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"entries": {"manifest.json": 1}}'])
def test_record_that_is_no_record(record: bytes) -> None:
    """A generation that can't be understood is reported as such."""
    with pytest.raises(ValueError, match=r"."):
        Checkpoint.parse(7, b'{"spec": {"containers": []}}', record)
