"""The chart of guard gives no right that no test takes away, to see it named: `tests.contract.guard.chart_rights`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.conftest import CHARTS, Manifest, Render, Rendered
from tests.contract.guard import chart_rights
from tests.contract.guard.chart_rights import (
    AGGREGATOR,
    AGGREGATOR_OF_CORE,
    CERTIFICATES,
    CONFIGURATIONS,
    DOWNSCALE,
    GENERATOR,
    HEALTH_CHECKERS,
    HOLD,
    INGRESS,
    INGRESS_HOLD,
    NO_DOWNSCALE,
    OWN_CELL,
    OWN_CONFIGURATIONS,
    PROTECTOR_WEBHOOK,
    ROLLOUTS,
    ZONE_BUDGETS,
    ZONE_TRACKER,
    Right,
)

SHOP = {"enabled": True, "namespaces": ["shop"]}
NOTHING = {"noDownscale": {"enabled": False}, "hold": "none"}
HELD = {**NOTHING, "hold": "run"}
CORE = {"enabled": True, "worker": False, "cells": [{"name": "west", "secretName": "west"}]}
CELL = {"enabled": True, "core": False, "coreCluster": {"secretName": "x"}, "webhook": {"url": "https://x.example"}}
BOTH = (OWN_CONFIGURATIONS, PROTECTOR_WEBHOOK, OWN_CELL, GENERATOR, AGGREGATOR, AGGREGATOR_OF_CORE)
EVERYTHING: Mapping[str, Any] = {
    "noDownscale": {"enabled": True},
    "rollouts": SHOP,
    "downscale": {"enabled": True},
    "zoneBudget": SHOP,
    "protector": {"enabled": True},
    "ingress": SHOP,
    "networkPolicy": {"enabled": True, "apiServers": ["10.0.0.11/32"]},
}
CASES: Mapping[str, tuple[Mapping[str, Any], tuple[tuple[Right, ...], ...]]] = {
    "nothing": (NOTHING, ()),
    "others' configurations": ({**NOTHING, "certificate": {"configurations": ["theirs"]}}, (CONFIGURATIONS,)),
    "no downscales": ({}, (OWN_CONFIGURATIONS, NO_DOWNSCALE)),
    "no downscales in shop": ({"noDownscale": {"namespaces": ["shop"]}}, (OWN_CONFIGURATIONS, NO_DOWNSCALE)),
    "rollouts": ({**NOTHING, "rollouts": SHOP}, (ROLLOUTS,)),
    "rollouts that runs hold": ({**HELD, "rollouts": SHOP}, (OWN_CONFIGURATIONS, ROLLOUTS, HOLD)),
    "prepared downscales": (
        {**NOTHING, "rollouts": SHOP, "downscale": {"enabled": True}},
        (OWN_CONFIGURATIONS, ROLLOUTS, DOWNSCALE),
    ),
    "prepared downscales after rollout-operator's": (
        {**NOTHING, "rollouts": SHOP, "downscale": {"enabled": True, "zoneTracker": "tracker"}},
        (OWN_CONFIGURATIONS, ROLLOUTS, DOWNSCALE, ZONE_TRACKER),
    ),
    "zone-aware budgets": ({**NOTHING, "zoneBudget": SHOP}, (OWN_CONFIGURATIONS, ZONE_BUDGETS)),
    "protectors": ({**NOTHING, "protector": {"enabled": True}}, BOTH),
    "protectors in shop": ({**NOTHING, "protector": SHOP}, BOTH),
    "protectors of other cells": ({**NOTHING, "protector": CORE}, (PROTECTOR_WEBHOOK, GENERATOR)),
    "a cell of another core": ({**NOTHING, "protector": CELL}, (AGGREGATOR,)),
    "ingress": ({**NOTHING, "ingress": SHOP}, (INGRESS, HEALTH_CHECKERS)),
    "ingress without health checkers": ({**NOTHING, "ingress": {**SHOP, "healthCheckers": []}}, (INGRESS,)),
    "ingress that runs hold": ({**HELD, "ingress": SHOP}, (INGRESS, HEALTH_CHECKERS, INGRESS_HOLD)),
    "everything": (
        {**EVERYTHING, "certificate": {"configurations": ["theirs"]}},
        (
            *(CONFIGURATIONS, NO_DOWNSCALE, ROLLOUTS, HOLD, DOWNSCALE, ZONE_BUDGETS),
            *(*BOTH, INGRESS, INGRESS_HOLD, HEALTH_CHECKERS),
        ),
    ),
}
"""What is enabled → its values, and the rights that it has beside CERTIFICATES."""


@pytest.mark.parametrize("case", CASES)
def test_each_right_is_one_that_a_test_takes_away(render: Render, case: str) -> None:
    """What is enabled gives the rights of the lists that contract tests are parametrised with: none more, none less."""
    values, lists = CASES[case]
    expected = {_known(right) for rights in (CERTIFICATES, *lists) for right in rights}
    assert set(granted(render("guard", values, "ops"))) == expected


def test_everything_that_can_be_enabled_is_looked_at() -> None:
    """A feature that values.yaml gets is enabled here, too."""
    values = yaml.safe_load((CHARTS / "guard" / "values.yaml").read_text())
    features = {name for name, value in values.items() if isinstance(value, dict) and "enabled" in value}
    assert features and features == {name for name in EVERYTHING if EVERYTHING[name]["enabled"]}


def test_each_right_of_the_lists_is_taken_away_by_a_test() -> None:
    """A list that no test uses any more proves nothing."""
    lists = {name: value for name, value in vars(chart_rights).items() if name.isupper() and isinstance(value, tuple)}
    assert lists
    listed = {right for rights in lists.values() for right in rights}
    assert _texts(listed) == _texts(_taken_away())


def granted(rendered: Rendered) -> Iterator[tuple[str, str, str, str]]:
    """What `_known` says of a right, for each that the objects give."""
    roles = {_identity(each): each["rules"] for each in rendered.objects if each["kind"] in ("Role", "ClusterRole")}
    for binding in rendered.objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        role, place = binding["roleRef"], binding["metadata"].get("namespace", "")
        rules = roles[role["kind"], role["name"], place if role["kind"] == "Role" else ""]
        accounts = [
            each["name"] if each["namespace"] == "ops" else f"{each['namespace']}/{each['name']}"
            for each in binding["subjects"]
        ]
        for account, rule in product(accounts, rules):
            for verb, resource in product(rule["verbs"], rule["resources"]):
                yield account, verb, resource, place if place == "kube-system" else ""


def _known(right: Right) -> tuple[str, str, str, str]:
    """Account, verb, resource; and the control plane's namespace, where a right is never as one elsewhere."""
    return right.account, right.verb, right.resource, right.namespace


def _texts(rights: Iterable[Right]) -> set[str]:
    return {f"{each.feature}: {each.account}: {each}" for each in rights}


def _identity(role: Manifest) -> tuple[str, str, str]:
    return role["kind"], role["metadata"]["name"], role["metadata"].get("namespace", "")


def _taken_away() -> Iterator[Right]:
    """Those that contract tests of guard are parametrised with."""
    for file in sorted(Path(chart_rights.__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"{chart_rights.__package__}.{file.stem}")
        for _, test in inspect.getmembers(module, inspect.isfunction):
            for mark in getattr(test, "pytestmark", ()):
                if mark.name == "parametrize":
                    yield from (value for value in mark.args[1] if isinstance(value, Right))
