"""Protectors of Deployments: upstream's "maintains the lifecycle of a child PodProtector", and its roundings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.builders import Json
from upgrader.in_cluster.guard.core.generator import (
    FINALIZER,
    Work,
    belongs_to,
    cells_to_remove,
    conditions,
    min_available,
    protector_name,
    wanted,
    work,
)
from upgrader.in_cluster.guard.core.selectors import Selector

PROTECTED = Selector.of({"matchLabels": {"podseidon.kubewharf.io/protect": "true"}})
SELECTOR = {"matchLabels": {"app": "web"}}


def _deployment(replicas: int | None = 10, metadata: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {
            "name": "web",
            "namespace": "ns",
            "uid": "u",
            "labels": {"podseidon.kubewharf.io/protect": "true"},
            "finalizers": [FINALIZER],
            **(metadata or {}),
        },
        "spec": {"replicas": replicas, "selector": SELECTOR, **spec},
    }


def _rolling(unavailable: object, surge: object = "25%") -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}


def _protector(deployment: Json) -> Json:
    target = wanted(deployment, PROTECTED)
    assert target is not None
    return {
        "metadata": {
            "name": target.name,
            "labels": {**target.labels, "team": "x"},
            "annotations": {**target.annotations, "theirs": "y"},
            "finalizers": [FINALIZER],
        },
        "spec": {**target.spec, "admissionHistoryConfig": {"maxConcurrentLag": 1}},
    }


@pytest.mark.parametrize(
    ("replicas", "strategy", "least"),
    [
        (10, _rolling("30%"), 7),
        (20, _rolling("30%"), 14),
        (10, _rolling("25%"), 8),
        (10, {}, 8),
        (None, {}, 1),
        (1, {}, 1),
        (3, _rolling(0), 3),
        (3, _rolling(0, 0), 2),
        (3, _rolling("10%", 0), 2),
        (3, _rolling("10%", "1%"), 3),
        (3, _rolling(5), 0),
        (3, _rolling("100%"), 0),
        (3, _rolling("x", True), 2),
        (0, {}, 0),
    ],
)
def test_a_deployment_keeps_what_its_rollout_keeps(replicas: int | None, strategy: Json, least: int) -> None:
    """maxUnavailable is rounded down, maxSurge up, and 1 is unavailable if both are 0: as its controller does."""
    assert min_available(_deployment(replicas, strategy=strategy)) == (least, "")


def test_recreate_protects_nothing_and_says_so() -> None:
    """Podseidon wants 75 % of its pods, so that it can never roll."""
    target = wanted(_deployment(strategy={"type": "Recreate"}), PROTECTED)
    assert target is not None
    assert target.spec["minAvailable"] == 0
    assert "Recreate" in target.condition


def test_a_protector_is_made_for_a_selected_deployment() -> None:
    """Its name, where it comes from, and the Deployment's own selector and time; first comes the finalizer."""
    deployment = _deployment(metadata={"finalizers": None}, minReadySeconds=5)
    target = wanted(deployment, PROTECTED)
    assert target is not None
    assert (target.namespace, target.name, target.condition) == ("ns", "deployment-web", "")
    assert target.labels == {
        "podseidon.kubewharf.io/source-name": "web",
        "podseidon.kubewharf.io/source-group": "apps",
        "podseidon.kubewharf.io/source-kind": "Deployment",
        "podseidon.kubewharf.io/source-resource": "deployments",
    }
    assert target.spec == {"minAvailable": 8, "minReadySeconds": 5, "selector": SELECTOR}
    assert work(deployment, None, PROTECTED) == Work(add_source_finalizer=True, create=True)


def test_a_protector_follows_its_deployment() -> None:
    """10 at 30 % is 7, 20 is 14; what people added beside it is theirs."""
    before = _protector(_deployment(10, strategy=_rolling("30%")))
    assert work(_deployment(10, strategy=_rolling("30%")), before, PROTECTED) == Work()
    assert work(_deployment(20, strategy=_rolling("30%")), before, PROTECTED) == Work(update=True)


@pytest.mark.parametrize("change", [{"finalizers": []}, {"labels": {}}, {"finalizers": None}, {"annotations": None}])
def test_a_protector_is_put_right(change: Json) -> None:
    """Without its finalizer or its labels it would be lost; without the UID of its Deployment, it wouldn't notice that
    this vanished.
    """
    before = _protector(_deployment())
    assert work(_deployment(), {**before, "metadata": {**before["metadata"], **change}}, PROTECTED) == Work(update=True)


def test_a_protector_that_is_deleted_by_hand_stays() -> None:
    """Its finalizer keeps it, and nothing takes that off while the Deployment wants it."""
    before = _protector(_deployment())
    going = {**before, "metadata": {**before["metadata"], "deletionTimestamp": "1970-01-01T00:00:00Z"}}
    assert work(_deployment(), going, PROTECTED) == Work()


def test_a_deployment_that_is_deleted_takes_its_protector_along() -> None:
    """Both go: first the protector, then the Deployment's finalizer."""
    going = _deployment(metadata={"deletionTimestamp": "1970-01-01T00:00:00Z"})
    assert work(going, _protector(_deployment()), PROTECTED) == Work(release=True, remove_source_finalizer=True)
    assert work(going, None, PROTECTED) == Work(remove_source_finalizer=True)


def test_a_deployment_that_has_vanished_leaves_its_protector() -> None:
    """It wasn't deleted: etcd lost it. Its pods are what the protector is for now."""
    assert work(None, _protector(_deployment()), PROTECTED) == Work(orphaned=True)
    assert work(None, None, PROTECTED) == Work()


def _vanished(total: int | None = 3, *, going: bool = True, **metadata: Any) -> Json:
    """A protector whose Deployment isn't there; its one cell has counted so many pods, None: nobody has counted."""
    before = _protector(_deployment())
    own = {**before["metadata"], **({"deletionTimestamp": "1970-01-01T00:00:00Z"} if going else {}), **metadata}
    cells = [] if total is None else [{"cellID": "a", "aggregation": {"totalReplicas": total}}]
    return {**before, "metadata": own, "status": {"cells": cells}}


@pytest.mark.parametrize("total", [3, None])
def test_a_protector_whose_deployment_has_vanished_holds_while_its_pods_are_there(total: int | None) -> None:
    """Deleted by itself, or with its namespace: that may be the same accident. Pods that nobody has counted may be
    there.
    """
    assert work(None, _vanished(total), PROTECTED) == Work(orphaned=True)


def test_a_protector_whose_deployment_has_vanished_goes_once_it_protects_nothing() -> None:
    """Deleted, and its pods are gone, or another one protects them, or it keeps none; else it stays for ever."""
    assert work(None, _vanished(0), PROTECTED) == Work(release=True)
    assert work(None, _vanished(0, going=False), PROTECTED) == Work(orphaned=True)
    assert work(None, _vanished(3), PROTECTED, others_protect=True) == Work(release=True)
    assert work(None, _vanished(3, going=False), PROTECTED, others_protect=True) == Work(orphaned=True)
    recreate = {**_vanished(3), "spec": {"minAvailable": 0}}
    assert work(None, recreate, PROTECTED) == Work(release=True)


@pytest.mark.parametrize("going", [True, False])
def test_who_wants_the_pods_of_a_vanished_deployment_gone_says_so(going: bool) -> None:
    """By an annotation, which its condition names; nothing else ends it by accident."""
    annotated = _vanished(3, going=going, annotations={"guard.upgrader.io/release": "true"})
    assert work(None, annotated, PROTECTED) == Work(release=True)
    assert work(_deployment(), annotated, PROTECTED) == Work(update=True), "it is taken off one that is there"
    assert "guard.upgrader.io/release=true" in conditions([], None, 0.0)[0]["message"]


def _again(replicas: int | None = None, **spec: Any) -> Json:
    """The Deployment as it was applied again: another UID, and no finalizer."""
    return _deployment(replicas, {"uid": "another", "finalizers": None}, **spec)


@pytest.mark.parametrize(
    "again",
    [
        _again(),
        _again(5),
        _again(10, strategy={"type": "Recreate"}),
        _again(20, selector={"matchLabels": {"app": "other"}}),
        {**_again(), "metadata": {**_again()["metadata"], "finalizers": [FINALIZER]}},
    ],
)
def test_one_that_vanished_and_was_applied_again_with_less_takes_no_protection_off(again: Json) -> None:
    """Its old pods are orphans until its own are there. Without `replicas`, which an autoscaler sets, it begins with 1;
    a backup's manifest has the finalizer too. The protector says what it waits for.
    """
    before = _vanished(10, going=False)
    target = wanted(again, PROTECTED, before)
    assert target is not None
    assert target.spec == {"minAvailable": 8, "minReadySeconds": 0, "selector": SELECTOR}
    assert not work(again, before, PROTECTED).update
    found = {c["type"]: c for c in conditions([], target, 0.0)}["SourceFound"]
    assert (found["status"], found["reason"]) == ("True", "AppliedAgain")
    assert "protects 8" in found["message"] and "guard.upgrader.io/release=true" in found["message"]


def test_it_follows_again_once_the_deployment_wants_as_many() -> None:
    """From then on it knows that one, and follows it down, too."""
    target = wanted(_again(12), PROTECTED, _vanished(10, going=False))
    assert target is not None
    assert (target.spec["minAvailable"], target.keeps) == (9, "")
    after = {**_vanished(10, going=False), "spec": target.spec}
    after["metadata"] = {**after["metadata"], "annotations": target.annotations}
    fewer = wanted(_again(3), PROTECTED, after)
    assert fewer is not None
    assert fewer.spec["minAvailable"] == 3


@pytest.mark.parametrize("before", [_vanished(0), _vanished(10, annotations={"guard.upgrader.io/release": "true"})])
def test_it_follows_with_less_where_it_protects_nothing_or_somebody_said_so(before: Json) -> None:
    """No pod is left, or the annotation says that fewer are right."""
    target = wanted(_again(), PROTECTED, before)
    assert target is not None
    assert (target.spec["minAvailable"], target.keeps) == (1, "")


def test_what_podseidon_made_follows_its_deployment() -> None:
    """It has no UID: with the finalizer it is the Deployment for which it was made, without it another one."""
    theirs = _vanished(10, annotations=None)
    for finalizers, least in (([FINALIZER], 1), ([], 8)):
        target = wanted(_deployment(1, {"finalizers": finalizers}), PROTECTED, theirs)
        assert target is not None
        assert target.spec["minAvailable"] == least


@pytest.mark.parametrize("name", ["web", "w" * 64, "w" * 253, "w" * 52 + "." * 2 + "x" * 100])
def test_long_names_have_protectors_too(name: str) -> None:
    """A name has at most 253 characters, a label's value 63; what is cut has a hash."""
    deployment = _deployment(metadata={"name": name})
    target = wanted(deployment, PROTECTED)
    assert target is not None
    assert len(target.name) <= 253 and len(target.labels["podseidon.kubewharf.io/source-name"]) <= 63
    made = {"metadata": {"name": target.name, "labels": target.labels}}
    assert protector_name(name) == target.name and belongs_to(made, name)
    assert not belongs_to(made, name[:-1] + "y") and not belongs_to({"metadata": {}}, name)


def test_a_protector_says_whether_it_protects_and_whether_its_source_is_there() -> None:
    """Since when, too; conditions of others stay."""
    other = {"type": "Theirs", "status": "True"}
    found = {c["type"]: c for c in conditions([other], wanted(_deployment(), PROTECTED), 0.0)}
    assert found["Theirs"] == other
    assert [found[kind]["status"] for kind in ("Protects", "SourceFound")] == ["True", "True"]
    assert list(found.values()) == conditions(found.values(), wanted(_deployment(), PROTECTED), 99.0)
    lost = {c["type"]: c for c in conditions(found.values(), None, 99.0)}
    assert (lost["SourceFound"]["status"], lost["SourceFound"]["lastTransitionTime"]) == (
        "False",
        "1970-01-01T00:01:39Z",
    )
    assert lost["Protects"] == found["Protects"]
    recreate = wanted(_deployment(strategy={"type": "Recreate"}), PROTECTED)
    assert "Recreate" in conditions([], recreate, 0.0)[0]["message"]


def test_a_deployment_that_is_no_longer_selected_is_let_go() -> None:
    """As is one that never was."""
    other = _deployment(metadata={"labels": {}})
    assert work(other, _protector(_deployment()), PROTECTED) == Work(release=True, remove_source_finalizer=True)
    assert work(_deployment(metadata={"labels": None, "finalizers": []}), None, PROTECTED) == Work()


@pytest.mark.parametrize(
    ("text", "cells"), [(None, set()), ("", set()), ("a", {"a"}), ("a,b", {"a", "b"}), (" a , ,b,", {"a", "b"})]
)
def test_cells_are_forgotten_by_annotation(text: str | None, cells: set[str]) -> None:
    """A list with commas, as podseidon's runbooks have it."""
    annotations = None if text is None else {"podseidon.kubewharf.io/remove-cell-once": text}
    assert cells_to_remove({"metadata": {"annotations": annotations}}) == cells
