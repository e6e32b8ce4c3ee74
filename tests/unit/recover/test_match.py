"""Which revision a checkpoint was made of."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import pytest
import yaml

from upgrader.in_cluster.checkpointer.static_pods.sanitise import candidate
from upgrader.model.release import Revision
from upgrader.onhost.node.workload_policy import Workload
from upgrader.recover.steps.pod_content import contradictions, pod_content
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
    """A generation that can't be parsed is reported as such."""
    with pytest.raises(ValueError, match=r"."):
        Checkpoint.parse(7, b'{"spec": {"containers": []}}', record)


def full(**changes: object) -> dict[str, Any]:
    """A template as the chart renders it: probes, mounts, variables, resources. `changes`: fields of its container."""
    container = {
        "name": NAME,
        "image": "kube-apiserver:v1.36.3",
        "args": ["--a"],
        "env": [
            {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {
                "name": "PRIVATE",
                "valueFrom": {"fileKeyRef": {"volumeName": "scratch", "path": "env", "key": "PRIVATE"}},
            },
        ],
        "ports": [{"name": "https", "containerPort": 6443}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"},
            "initialDelaySeconds": 0,
        },
        "resources": {"requests": {"cpu": "1000m"}},
        "volumeMounts": [{"name": "pki", "mountPath": "/pki"}, {"name": "audit", "mountPath": "/audit"}],
        "securityContext": {"allowPrivilegeEscalation": False},
        **changes,
    }
    return {
        "hostNetwork": True,
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "containers": [container],
        "volumes": [
            {"name": "pki", "hostPath": {"path": "/pki"}},
            {"name": "audit", "secret": {"secretName": "audit"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }


def stored(template: dict[str, Any]) -> dict[str, Any]:
    """A pod of that template, as the API server has it: with its defaults, and what admission adds."""
    pod = copy.deepcopy(template)
    pod |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}
    pod |= {"securityContext": {}, "priority": 2000001000, "schedulerName": "default-scheduler"}
    pod["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    for container in pod["containers"]:
        container |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
        container["imagePullPolicy"] = "IfNotPresent"
        probe = container["readinessProbe"]
        probe |= {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
        probe.pop("initialDelaySeconds", None)
        for kind in container.get("resources", {}).values():
            for name, value in kind.items():
                kind[name] = {"1000m": "1", "1024Mi": "1Gi"}.get(value, value)
        for entry in container.get("env", ()):
            for kind, default in (("fieldRef", {"apiVersion": "v1"}), ("fileKeyRef", {"optional": False})):
                if kind in entry.get("valueFrom", {}):
                    entry["valueFrom"][kind] |= default
    for volume in pod["volumes"]:
        for source in ("hostPath", "secret"):
            if source in volume:
                volume[source]["type" if source == "hostPath" else "defaultMode"] = "" if source == "hostPath" else 420
    meta = {"name": f"{NAME}-abc-x", "namespace": SPACE, "annotations": {}, "uid": "u"}
    return {"metadata": meta, "spec": pod, "status": {}}


def of_pod(template: dict[str, Any]) -> Checkpoint:
    """The checkpoint that the pod-checkpointer itself makes of a pod of that template."""
    made = candidate(stored(template), Workload(SPACE, NAME), lambda *_: {"policy": b"x"}, {})
    placed = made.placed("/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver/generations/7/volumes", 7)
    return Checkpoint.parse(7, json.dumps(placed).encode(), b'{"entries": {}}')


def release(template: dict[str, Any]) -> str:
    """A release's manifest with that template."""
    document = {"kind": "Deployment", "metadata": {"name": NAME}, "spec": {"template": {"spec": template}}}
    return yaml.safe_dump(document)


CHANGES: dict[str, dict[str, object]] = {
    "a memory limit": {"resources": {"requests": {"cpu": "1000m"}, "limits": {"memory": "100Mi"}}},
    "another memory limit": {"resources": {"requests": {"cpu": "1000m"}, "limits": {"memory": "1024Mi"}}},
    "more environment": {"env": [*full()["containers"][0]["env"], {"name": "GODEBUG", "value": "madvdontneed=9"}]},
    "no environment": {"env": []},
    "a bad mount": {"volumeMounts": [{"name": "pki", "mountPath": "/pki"}, {"name": "audit", "mountPath": "/other"}]},
    "one mount less": {"volumeMounts": [{"name": "pki", "mountPath": "/pki"}]},
    "a bad probe": {"readinessProbe": {"httpGet": {"path": "/nope", "port": "https", "scheme": "HTTPS"}}},
    "another user": {"securityContext": {"allowPrivilegeEscalation": False, "runAsUser": 65534}},
    "no resources": {"resources": {}},
}


@pytest.mark.parametrize("bad", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("newest_is_good", [False, True], ids=["the older is good", "the newer is good"])
def test_every_part_of_the_pod_tells_revisions_apart(bad: dict[str, object], newest_is_good: bool) -> None:
    """Whatever part of the template two revisions differ in, the one whose pod was checkpointed is found: not a flag
    alone can keep a pod from running.
    """
    manifests = {3: release(full()), 4: release(full(**bad))}
    assert chosen(manifests, of_pod(full(**bad) if newest_is_good else full())) == (4 if newest_is_good else 3)


def test_what_the_api_server_makes_of_a_template_is_the_same() -> None:
    """Defaults, other ways to write a quantity and a Secret's files in their folder are no differences."""
    template = full(resources={"limits": {"memory": "1024Mi", "cpu": "1000m"}})
    assert chosen({1: release(template)}, of_pod(template)) == 1


def test_a_volume_that_is_gone_is_a_difference() -> None:
    """A template that states a volume which the checkpoint doesn't have isn't what it was made of."""
    other = full()
    other["volumes"].append({"name": "more", "emptyDir": {"sizeLimit": "10Mi"}})
    assert chosen({1: release(other)}, of_pod(full())) is None


def test_values_that_come_from_the_api_are_not_compared() -> None:
    """A variable from a ConfigMap is a literal in the checkpoint: what it held then isn't known now."""
    reference = {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "policy"}}}
    template = full(env=[reference])
    pod = full(env=[{"name": "LEVEL", "value": "x"}])
    assert chosen({1: release(template)}, of_pod(pod)) == 1


def test_what_is_no_quantity_is_compared_as_it_is() -> None:
    """A value that can't be read as a number is still told apart from another one."""
    one, other = (pod_content({"resources": {"limits": {"x": text}}}) for text in ("many", "few"))
    assert contradictions(one, other) == [("resources", "limits", "x")]
    assert contradictions(one, one) == []


def test_a_checkpoint_knows_the_template_of_its_pod() -> None:
    """The hash that the pod carried is read from the record."""
    record = {"entries": {}, "origin": {"template_hash": "5c4"}}
    found = Checkpoint.parse(7, b'{"spec": {"containers": []}}', json.dumps(record).encode())
    assert found.template_hash == "5c4"
