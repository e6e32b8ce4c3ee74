"""Cordons and marks: one request each, whoever else changes the node."""

from __future__ import annotations

import pytest

from tests.unit.steps.nodes.fleet import NEW, OLD, Fleet
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.node_mark import NodeMark, Phase
from upgrader.steps.nodes.cordon import Cordons


def test_cordon_of_somebody_else_in_between_is_not_ours() -> None:
    """Whoever cordons a node between our reading and our writing keeps that cordon: the write is repeated."""
    fleet = Fleet("worker-1")
    cordons = Cordons(fleet.kube, fleet.clock)
    requests = 0

    def cordon_first() -> None:
        nonlocal requests
        requests += 1
        if requests == 2:  # between the first reading and the write
            node = dict(fleet.node("worker-1"))
            fleet.kube.put(NODES, {**node, "spec": {"unschedulable": True}})

    fleet.kube.watchers.append(cordon_first)
    cordons.cordon("worker-1", "drain")
    cordons.release("worker-1")
    assert fleet.node("worker-1")["spec"] == {"unschedulable": True}


def test_phase_keeps_whose_cordon_it_is() -> None:
    """Later phases don't forget that the first one found the node uncordoned, nor the version that it had."""
    fleet = Fleet("worker-1")
    cordons = Cordons(fleet.kube, fleet.clock)
    phases: tuple[Phase, ...] = ("drain", "swap", "back")
    for phase in phases:
        cordons.cordon("worker-1", phase, "why")
        fleet.set_node("worker-1", NEW)
    now = cordons.read("worker-1")
    assert now and now.mark == NodeMark("back", cordoned=True, why="why", before=OLD)
    cordons.release("worker-1")
    assert not fleet.node("worker-1")["spec"] and not fleet.node("worker-1")["metadata"]["annotations"]


def test_kubelet_that_reports_no_version() -> None:
    """Its node can be cordoned and released; what is to be done with it isn't guessed."""
    fleet = Fleet("worker-1")
    cordons = Cordons(fleet.kube, fleet.clock)
    fleet.kube.put(NODES, {**fleet.node("worker-1"), "status": {"nodeInfo": {"kubeletVersion": "dev"}}})
    cordons.cordon("worker-1", "drain")
    now = cordons.read("worker-1")
    assert now and now.cordoned and now.mark == NodeMark("drain", cordoned=True)
    with pytest.raises(ApiError, match="worker-1: its kubelet reports 'dev', which is not a Kubernetes version"):
        assert now.version
    assert cordons.release("worker-1") == "dev"


def test_api_that_stays_away_is_an_error() -> None:
    """The wait has an end."""
    fleet = Fleet("worker-1")
    fleet.kube.unavailable = True
    with pytest.raises(ApiUnavailable):
        Cordons(fleet.kube, fleet.clock).cordon("worker-1", "drain")
    assert 100 < fleet.clock.monotonic() < 200


def test_write_that_etcd_has_not_stored() -> None:
    """With three controllers, etcd may elect a leader in any moment of hours: kube-apiserver answers a write with 500
    then, which says nothing of the node.
    """
    fleet = Fleet("worker-1")
    answers = iter(["etcdserver: leader changed", "etcdserver: request timed out"])

    def elects() -> None:
        if message := next(answers, ""):
            error = ApiError(f"the API server refused 'patch nodes worker-1': HTTP 500 {message}")
            error.status = 500
            raise error

    fleet.kube.watchers.append(elects)
    cordons = Cordons(fleet.kube, fleet.clock)
    cordons.cordon("worker-1", "drain")
    now = cordons.read("worker-1")
    assert now and now.cordoned and now.mark


def test_refusal_is_not_repeated() -> None:
    """What the API refuses for another reason than a conflict is an error at once."""
    fleet = Fleet("worker-1")

    def forbid() -> None:
        error = ApiError("may not")
        error.status = 403
        raise error

    fleet.kube.watchers.append(forbid)
    with pytest.raises(ApiError, match="may not"):
        Cordons(fleet.kube, fleet.clock).cordon("worker-1", "drain")
    assert fleet.clock.monotonic() == 0
