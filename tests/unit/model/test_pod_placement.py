"""On which nodes a pod may be scheduled."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.model.pod_placement import may_run_on

CONTROLLER = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def node(*taints: dict[str, str], **labels: str) -> dict[str, Any]:
    """A node called n1."""
    return {"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": list(taints)}}


def requiring(*terms: dict[str, Any]) -> dict[str, Any]:
    """A pod with required node affinity."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A term of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_pod_without_demands_runs_on_any_node() -> None:
    """Without selector, affinity and taints there is nothing against it."""
    assert may_run_on({}, node())


def test_node_selector_must_match() -> None:
    """Every label of the selector, with its value."""
    assert may_run_on({"nodeSelector": {"pool": "a"}}, node(pool="a", zone="1"))
    assert not may_run_on({"nodeSelector": {"pool": "a", "zone": "2"}}, node(pool="a", zone="1"))


def test_pod_that_is_bound_runs_only_there() -> None:
    """`nodeName` leaves no choice."""
    assert may_run_on({"nodeName": "n1"}, node())
    assert not may_run_on({"nodeName": "n2"}, node())


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": CONTROLLER["key"], "operator": "Exists"}, True),
        ({"key": CONTROLLER["key"], "effect": "NoSchedule"}, True),
        ({"key": CONTROLLER["key"], "effect": "NoExecute"}, False),
        ({"key": CONTROLLER["key"], "value": "yes"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"effect": "NoSchedule"}, False),
    ],
)
def test_taints_must_be_tolerated(toleration: dict[str, str], tolerated: bool) -> None:
    """As the scheduler reads tolerations."""
    assert may_run_on({"tolerations": [toleration]}, node(CONTROLLER)) is tolerated


def test_taints_of_a_nodes_condition_do_not_count() -> None:
    """A cordoned node, or one under pressure, may take the pod in a minute; nor does what only discourages."""
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert may_run_on({}, node(cordoned, {"key": "slow", "effect": "PreferNoSchedule"}))


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (expression("pool", "In", "a", "b"), True),
        (expression("pool", "In", "c"), False),
        (expression("pool", "NotIn", "a"), False),
        (expression("zone", "NotIn", "a"), True),
        (expression("pool", "Exists"), True),
        (expression("zone", "Exists"), False),
        (expression("zone", "DoesNotExist"), True),
        (expression("cores", "Gt", "3"), True),
        (expression("cores", "Gt", "4"), False),
        (expression("cores", "Lt", "5"), True),
        (expression("zone", "Lt", "5"), False),
        (expression("cores", "Gt"), False),
        (expression("pool", "OfTheFuture"), True),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}, False),
        ({}, False),
    ],
)
def test_required_affinity(term: dict[str, Any], matches: bool) -> None:
    """Every operator; an unknown one counts as a match, as an image too many harms nobody."""
    assert may_run_on(requiring(term), node(pool="a", cores="4")) is matches


def test_one_term_is_enough() -> None:
    """Terms are alternatives."""
    assert may_run_on(requiring(expression("zone", "Exists"), expression("pool", "Exists")), node(pool="a"))
