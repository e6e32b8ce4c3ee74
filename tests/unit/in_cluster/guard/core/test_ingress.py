"""What an IngressDaemonSet says, and what it makes: its document, and the faults of the original's code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import Json
from upgrader.contract.detach import ATTACHED, Detachment
from upgrader.in_cluster.guard.core.ingress import (
    DUE,
    NODE_ANNOTATIONS,
    IngressDaemonSet,
    InvalidIngress,
    read,
    refuse_foreign_keys,
)
from upgrader.in_cluster.guard.core.ingress_objects import (
    NODE_LABEL,
    REVISION,
    deployment,
    deployment_name,
    health_checker,
    node_value,
    ports_left_out,
)

PORTS = [{"name": "http", "containerPort": 80, "hostPort": 80}]


def item(rolling: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    """The document's example, with one of its two maxima, as it says."""
    return {
        "metadata": {"name": "nginx", "namespace": "ns", "labels": {"team": "edge"}},
        "spec": {
            "podsPerNode": 2,
            "healthCheckNodePorts": [10080],
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling or {}},
            "healthChecker": {"image": "checker:1", "imagePullPolicy": "Always", "serviceAccountName": "checker"},
            "template": {
                "metadata": {"labels": {"app": "nginx"}, "annotations": {"a": "b"}},
                "spec": {
                    "nodeSelector": {"ingress": "true"},
                    "hostNetwork": True,
                    "containers": [{"name": "nginx", "image": "nginx:1", "ports": PORTS}],
                    **(pod or {}),
                },
            },
            **spec,
        },
    }


NO_PODS: list[Json] = [
    {"tolerations": "abc"},
    {"tolerations": [1]},
    {"tolerations": {"key": "a"}},
    {"containers": "abc"},
    {"containers": 5},
    {"containers": [1]},
    {"containers": [{"ports": [1]}]},
    {"containers": [{"ports": {"hostPort": 80}}]},
]
"""Pods that the kind's schema lets through, as it leaves them to the API server."""

DETACH: Json = {
    "maxUnavailableNodes": 2,
    "maxUnavaiablePodsPerNode": 3,
    "maxSurgedPodsPerNode": 1,
    "annotateNodeToDetach": {"key": "node-detacher.variant.run/detached", "value": "true", "gracePeriodSeconds": 10},
    "waitForDetachmentByAnnotatedTimestamp": {
        "key": "node-detacher.variant.run/detachment-timestamp",
        "format": "RFC3339",
        "gracePeriodSeconds": 30,
    },
}


def test_the_documents_example_is_read() -> None:
    """With all that it says about the way out of the load balancer."""
    seen = read(item(DETACH))
    assert (seen.pods_per_node, seen.ports, seen.most_nodes, seen.whole_node) == (2, (10080,), 2, True)
    assert (seen.unavailable, seen.surge, seen.node_selector) == (3, 1, {"ingress": "true"})
    assert seen.detachment == Detachment(grace=10, answered_grace=30)
    assert seen.selector == {"app": "nginx"}


@pytest.mark.parametrize(
    ("rolling", "wrong"),
    [
        ({"annotateNodeToDetach": {"key": "upgrader.io/node"}}, "annotateNodeToDetach has the key 'upgrader.io/node'"),
        ({"annotateNodeToDetach": {"key": "flannel.alpha.coreos.com/public-ip=10.0.0.9"}}, "public-ip'"),
        ({**DETACH, "waitForDetachmentByAnnotatedTimestamp": {"key": "a/b"}}, "Timestamp has the key 'a/b'"),
    ],
)
def test_no_other_annotation_of_nodes_is_written_by_way_of_guard(rolling: Json, wrong: str) -> None:
    """Whoever has rights in a namespace gets none on Nodes: neither what is written nor what is taken off is theirs to
    choose, but for what the one who installed guard allows.
    """
    which = read(item(rolling))
    with pytest.raises(InvalidIngress, match=wrong):
        refuse_foreign_keys(which, NODE_ANNOTATIONS)
    how = which.detachment
    assert how is not None
    refuse_foreign_keys(which, [how.key, how.answer])
    for usual in (DETACH, {}):
        refuse_foreign_keys(read(item(usual)), NODE_ANNOTATIONS)


def test_one_node_is_degraded_at_a_time_unless_it_says_otherwise() -> None:
    """And each of its pods alone."""
    assert replace(read(item()), template={}) == IngressDaemonSet(
        namespace="ns",
        name="nginx",
        labels={"team": "edge"},
        selector={"app": "nginx"},
        node_selector={"ingress": "true"},
        template={},
        pods_per_node=2,
        ports=(10080,),
        health_checker=item()["spec"]["healthChecker"],
        due_grace=10.0,
    )
    assert read(item({"maxDegradedNodes": 3, "maxUnavailableNodes": 0})).most_nodes == 3
    assert read(item(podsPerNode=None, replicas=3)).pods_per_node == 3
    assert read(item(podsPerNode=None)).pods_per_node == 1


@pytest.mark.parametrize("key", ["maxUnavaiablePodsPerNode", "maxUnavailablePodsPerNode", "maxUnavailablePodsPerNodes"])
def test_both_spellings_and_the_codes_own_are_understood(key: str) -> None:
    """A number or a percentage."""
    assert read(item({key: "50%"})).unavailable == "50%"
    assert read(item({key: 2, "maxUnavailablePodsPerNode": 2})).unavailable == 2


@pytest.mark.parametrize(
    ("content", "key", "value"),
    [
        ({"key": "k", "value": "v"}, "k", "v"),
        ({"key": "k=v"}, "k", "v"),
        ({"key": "k=v", "value": "w"}, "k", "w"),
        ({"key": "k"}, "k", ""),
    ],
)
def test_an_annotation_is_a_key_or_a_key_and_a_value(content: Json, key: str, value: str) -> None:
    """Without an answer to wait for, asking and its grace period must do."""
    seen = read(item({"annotateNodeToDetach": content})).detachment
    assert seen == Detachment(key, value, 0, answer="", attached="")


def test_another_answer_than_the_detachers_has_no_way_back() -> None:
    """Its name for the attachment isn't known."""
    for key, attached in (("other/at", ""), (None, ATTACHED)):
        waits = {"annotateNodeToDetach": {"key": "k"}, "waitForDetachmentByAnnotatedTimestamp": {"key": key}}
        seen = read(item(waits)).detachment
        assert seen is not None and seen.attached == attached


def test_the_deployments_annotation_has_its_own_name_and_grace() -> None:
    """`to-be-updated` unless it says otherwise."""
    seen = read(item({"annotateDeploymentToDetach": {"key": "mine", "gracePeriodSeconds": 10}}))
    assert (seen.due, seen.due_grace) == ("mine", 10)
    assert (read(item()).due, read(item()).due_grace) == (DUE, 10), "so that the load balancer notices"
    assert read(item(DETACH)).due_grace == 0, "the detachment has grace periods of its own"
    assert read(item(healthCheckNodePorts=[])).due_grace == 0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (item({"maxUnavailableNodes": 1, "maxDegradedNodes": 1}), "only one of maxUnavailableNodes and"),
        (item({"maxUnavailableNodes": 0, "maxDegradedNodes": 0}), "no node is ever updated"),
        (item({"maxUnavaiablePodsPerNode": 1, "maxUnavailablePodsPerNode": 2}), "two spellings"),
        (item({"waitForDetachmentByAnnotatedTimestamp": {"key": "k"}}), "needs annotateNodeToDetach"),
        (item({**DETACH, "waitForDetachmentByAnnotatedTimestamp": {"format": "Unix"}}), "not RFC3339"),
        (item({**DETACH, "waitForDetachmentByAnnotatedTimestamp": []}), "isn't an object"),
        (item({**DETACH, "waitForDetachmentByAnnotatedTimestamp": {"key": 7}}), "isn't a string"),
        (item({**DETACH, "waitForDetachmentByAnnotatedTimestamp": {"gracePeriodSeconds": -1}}), "non-negative"),
        (item({"annotateNodeToDetach": {"key": "k", "value": True}}), "isn't a string"),
        (item({"annotateNodeToDetach": "k"}), "isn't an object"),
        (item({"maxSurgedPodsPerNode": "x"}), "isn't a number or"),
        (item({"maxUnavaiablePodsPerNode": -1}), "isn't a number or"),
        (item(podsPerNode="2"), "podsPerNode isn't a non-negative"),
        (item(healthCheckNodePorts=[0]), "ports"),
        (item(healthCheckNodePorts=[80, 80]), "ports"),
        (item(healthCheckNodePorts="80"), "ports"),
        (item(selector={"matchLabels": {"app": "other"}}), "selector"),
        (item(selector={"matchLabels": {"app": 1}}), "isn't a string"),
        (item(template={}), "selector"),
        ({}, "selector"),
    ],
)
def test_what_contradicts_itself_is_refused(changed: Json, why: str) -> None:
    """With what contradicts what."""
    with pytest.raises(InvalidIngress, match=why):
        read(changed)


def test_a_nodes_deployment_has_the_users_labels_and_as_many_pods_as_asked() -> None:
    """The original drops the labels, and knows no podsPerNode."""
    made = deployment(read(item(DETACH)), "node-1")
    labels = {"app": "nginx", NODE_LABEL: "node-1"}
    assert made["metadata"]["name"] == "nginx-node-1"
    assert made["metadata"]["labels"] == {"team": "edge", **labels}
    assert made["spec"]["replicas"] == 2
    assert made["spec"]["selector"] == {"matchLabels": labels}
    pods = made["spec"]["template"]
    assert pods["metadata"] == {"labels": labels, "annotations": {"a": "b"}}
    assert pods["spec"]["nodeName"] == "node-1" and "nodeSelector" not in pods["spec"]


def test_all_pods_of_a_detached_node_go_at_once() -> None:
    """Otherwise as the user says; two zeros, which no API server takes, are one."""
    rolling = [
        deployment(read(item(changes)), "n")["spec"]["strategy"]["rollingUpdate"]
        for changes in (
            DETACH,
            {"maxUnavaiablePodsPerNode": "50%", "maxSurgedPodsPerNode": 1},
            {"maxUnavaiablePodsPerNode": 0},
        )
    ]
    assert rolling == [
        {"maxUnavailable": "100%", "maxSurge": 0},
        {"maxUnavailable": "50%", "maxSurge": 1},
        {"maxUnavailable": 1, "maxSurge": 0},
    ]


def test_ports_are_left_out_where_pods_would_fight_for_them() -> None:
    """The kubelet refuses the second pod with the same port of the host (NodePorts)."""
    two = read(item())
    assert ports_left_out(two)
    assert "ports" not in deployment(two, "n")["spec"]["template"]["spec"]["containers"][0]
    one = read(item(podsPerNode=1))
    assert not ports_left_out(one)
    assert deployment(one, "n")["spec"]["template"]["spec"]["containers"][0]["ports"] == PORTS
    assert ports_left_out(read(item({"maxSurgedPodsPerNode": 1}, podsPerNode=1)))


def test_a_pod_with_a_network_of_its_own_keeps_its_ports() -> None:
    """Only what makes them the host's goes."""
    own = read(item(pod={"hostNetwork": False}))
    (container,) = deployment(own, "n")["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 80}]
    free = read(item(pod={"hostNetwork": False, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}))
    assert not ports_left_out(free)


@pytest.mark.parametrize(("host", "count"), [(True, 8), (False, 7)])
def test_pods_tolerate_what_a_daemon_sets_do(host: bool, count: int) -> None:
    """Besides what the user says; a pod in the host's network needs no network."""
    given = [{"key": "edge", "operator": "Exists"}]
    made = deployment(read(item(pod={"hostNetwork": host, "tolerations": given})), "n")
    tolerations = made["spec"]["template"]["spec"]["tolerations"]
    assert tolerations[0] == given[0] and len(tolerations) == count
    assert {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"} in tolerations


def test_a_name_too_long_for_a_label_is_hashed() -> None:
    """Two nodes whose names begin alike stay two."""
    long = "a" * 52 + "." + "b" * 40
    other = long + "c"
    assert node_value("n1") == "n1"
    assert len(node_value(long)) <= 63 and node_value(long) != node_value(other)
    assert node_value(long).startswith("a" * 52 + "-")
    assert deployment_name("nginx", long) == f"nginx-{long}"
    assert len(deployment_name("n" * 200, long)) <= 242


def test_the_revision_is_of_the_pods_and_not_of_their_number() -> None:
    """More pods are no update."""

    def revision(which: Json) -> str:
        return str(deployment(read(which), "n")["metadata"]["annotations"][REVISION])

    assert revision(item(podsPerNode=3)) == revision(item())
    assert revision(item(pod={"containers": [{"name": "nginx", "image": "nginx:2"}]})) != revision(item())


def test_the_health_checker_runs_on_the_same_nodes() -> None:
    """`NAME-PORT`, on the host's network; there is one for each port."""
    made = health_checker(read(item()), 10080)
    assert made["metadata"]["name"] == "nginx-10080"
    pods = made["spec"]["template"]["spec"]
    assert (pods["hostNetwork"], pods["nodeSelector"], pods["serviceAccountName"]) == (
        True,
        {"ingress": "true"},
        "checker",
    )
    (container,) = pods["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("checker:1", "Always")
    assert container["args"] == ["ingress-health", "-ingress=ns/nginx", "-port=10080", f"-due={DUE}"]
    assert made["metadata"]["annotations"]["ingressdaemonsets.mumoshu.github.io/health-check-node-port"] == "10080"
    bare = health_checker(replace(read(item()), health_checker=None), 80)["spec"]["template"]["spec"]
    assert (bare["serviceAccountName"], bare["containers"][0]["imagePullPolicy"]) == ("default", "IfNotPresent")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("", "own:1"),
        ("mumoshu/ingress-daemonset-controller:latest", "own:1"),
        ("registry.example.com:5000/ingress-daemonset-controller@sha256:00", "own:1"),
        ("registry.example.com/checker:1", "registry.example.com/checker:1"),
    ],
)
def test_the_originals_health_checker_is_replaced_by_ours(given: str, used: str) -> None:
    """Its program knows other flags: it would crash, and no node would answer the load balancer."""
    made = health_checker(read(item(healthChecker={"image": given})), 80, "own:1")
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == used


@pytest.mark.parametrize("pod", NO_PODS, ids=str)
def test_a_pod_that_is_none_is_refused(pod: Json) -> None:
    """It is told as what contradicts itself, rather than when it is made."""
    with pytest.raises(InvalidIngress, match="isn't a list of objects"):
        read(item(pod=pod))
