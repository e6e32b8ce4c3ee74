"""Whether what a chart has in crds/ is in the cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.preflight.conftest import World
from upgrader.errors import ApiError
from upgrader.ports import Kind
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.chart_definitions import check_chart_definitions

DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
NAME = "queues.example.com"


def definition(*versions: str, **spec: Any) -> dict[str, Any]:
    """With these versions, as a chart has it."""
    served = [{"name": version, "served": True, "storage": version == versions[-1]} for version in versions]
    meta = {"name": NAME}
    given = {"group": "example.com", "versions": served, **spec}
    return {"apiVersion": DEFINITIONS.api_version, "kind": "CustomResourceDefinition", "metadata": meta, "spec": given}


@pytest.fixture
def queues(world: World) -> World:
    """With a release whose chart has the definition with a second version, and its Deployment changes."""
    world.manifests["queues"] = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    world.helm.definitions_of[Path("/c")] = yaml.safe_dump(definition("v1", "v2"))
    return world


def test_definition_that_helm_leaves_as_it_is(queues: World) -> None:
    """The new controller asks for a version that isn't served, and Helm calls the release deployed."""
    queues.kube.put(DEFINITIONS, definition("v1"))
    found = queues.find(check_chart_definitions)["custom-resources.not-upgraded"]
    assert found.severity == "warning" and "release queues: " in found.title and found.title.endswith(NAME)
    assert "helm show crds /c | kubectl apply" in found.remedy


def test_definition_that_is_as_the_chart_has_it(queues: World) -> None:
    """What others have added to it, such as the CA of its webhook, is no difference."""
    webhook = {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "x"}}}
    queues.kube.put(DEFINITIONS, definition("v1", "v2", conversion=webhook))
    assert queues.find(check_chart_definitions) == {}


def test_placeholder_of_a_ca(queues: World) -> None:
    """A chart has one until an operator writes the real CA: to apply it would break conversions."""
    webhook = {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "real"}}}
    queues.kube.put(DEFINITIONS, definition("v1", "v2", conversion=webhook))
    placeholder = {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "Cg=="}}}
    queues.helm.definitions_of[Path("/c")] = yaml.safe_dump(definition("v1", "v2", conversion=placeholder))
    assert queues.find(check_chart_definitions) == {}


def test_definition_that_is_missing(queues: World) -> None:
    """Helm installs it with a new release, and not with an upgrade of one."""
    assert f"{NAME} (missing)" in queues.find(check_chart_definitions)["custom-resources.not-upgraded"].title
    context = queues.context()
    assert context.plan is not None
    (step,) = context.changing
    context = replace(context, plan=replace(context.plan, steps=(replace(step, action="install"),)))
    assert run_checks(context, [("custom-resources", check_chart_definitions)]) == ()


def test_definition_that_the_api_refuses(queues: World) -> None:
    """It couldn't be applied either: that is said with it. A missing right is one that only checks need."""
    queues.kube.put(DEFINITIONS, definition("v1"))
    refused = ApiError("v1 must stay in status.storedVersions")
    queues.kube.refuses_dry_patch[NAME] = refused
    assert "must stay in" in queues.find(check_chart_definitions)["custom-resources.not-upgraded"].title
    refused.status = 403
    found = run_checks(queues.context(), [("custom-resources", check_chart_definitions)])
    assert [(item.id, item.severity) for item in found] == [("custom-resources.forbidden", "warning")]
