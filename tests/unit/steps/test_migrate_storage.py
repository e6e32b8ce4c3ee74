"""Every object is stored again; what can't be is named, and what is gone or newer is fine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError, ApiUnavailable, StepFailed
from upgrader.ports import Kind, KubeObject
from upgrader.steps.migrate_storage import MigrateStorageStep

CONFIG_MAPS, WIDGETS = Kind("v1", "configmaps"), Kind("example.com/v2", "widgets")
DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
VERBS = ["list", "patch"]


class Api(FakeKube):
    """Remembers what was patched; `errors`: what a patch of an object raises, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.patched: list[str] = []
        self.errors: dict[str, list[ApiError]] = {}
        self.raw_answers["/apis"] = json.dumps(
            {
                "groups": [
                    {
                        "name": "example.com",
                        "versions": [{"groupVersion": "example.com/v2"}],
                        "preferredVersion": {"groupVersion": "example.com/v2"},
                    }
                ]
            }
        )
        for path, name in (("/api/v1", "configmaps"), ("/apis/example.com/v2", "widgets")):
            resource = {"name": name, "namespaced": True, "verbs": VERBS}
            self.raw_answers[path] = json.dumps({"resources": [resource]})
        for name in ("a", "b"):
            self.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
        self.put(WIDGETS, {"metadata": {"name": "w", "namespace": "default"}})
        versions = [{"name": "v1", "storage": False}, {"name": "v2", "storage": True}]
        self.put(
            DEFINITIONS,
            {
                "metadata": {"name": "widgets.example.com", "generation": 2},
                "spec": {"versions": versions},
                "status": {"storedVersions": ["v1", "v2"]},
            },
        )

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        self.patched.append(f"{kind.plural} {name}")
        if self.errors.get(name):
            raise self.errors[name].pop(0)
        return super().patch(kind, name, changes, namespace, subresource=subresource)

    @property
    def stored(self) -> list[str]:
        """What the definition says is stored."""
        found = self.get(DEFINITIONS, "widgets.example.com")
        assert found is not None
        versions: list[str] = found["status"]["storedVersions"]
        return versions


def error(status: int, message: str = "no") -> ApiError:
    """As the API server answers."""
    made = ApiError(message)
    made.status = status
    return made


@pytest.fixture
def api() -> Api:
    """Two ConfigMaps, and a custom resource that has been stored in two versions."""
    return Api()


def migrate(api: Api) -> list[str]:
    """The notes of the step."""
    notes = list[str]()
    MigrateStorageStep(api, FakeClock()).apply(notes.append)
    return notes


def test_every_object_is_written_again_as_it_is(api: Api) -> None:
    """Nothing changes but the definition's list of stored versions."""
    before = api.list(CONFIG_MAPS) + api.list(WIDGETS)
    notes = migrate(api)
    assert api.list(CONFIG_MAPS) + api.list(WIDGETS) == before
    assert api.patched[:3] == ["configmaps a", "configmaps b", "widgets w"]
    assert api.stored == ["v2"]
    assert notes[-1] == "3 objects of 2 resources are stored as this version stores them"


@pytest.mark.parametrize("gone", [True, False])
def test_what_is_gone_or_was_written_meanwhile_is_fine(api: Api, gone: bool) -> None:
    """Whoever has written it has it stored as it is to be."""

    def meanwhile() -> None:
        if gone:
            api.delete(WIDGETS, "w", "default")
        else:
            api.put(WIDGETS, {"metadata": {"name": "w", "namespace": "default"}, "spec": {"new": len(api.patched)}})

    MigrateStorageStep(api, FakeClock(), check=meanwhile).apply(list[str]().append)
    assert api.stored == ["v2"]


@pytest.mark.parametrize("status", [404, 409])
def test_webhook_that_answers_like_the_api_server_is_a_refusal(api: Api, status: int) -> None:
    """A webhook chooses its code. The object is stored as it was, so the definition must go on saying so."""
    api.errors["w"] = [error(status, "denied by policy")]
    with pytest.raises(StepFailed, match=r"1 objects .*widgets default/w \(denied"):
        migrate(api)
    assert api.stored == ["v1", "v2"]


def test_what_is_refused_is_named_and_the_others_are_migrated(api: Api) -> None:
    """A webhook forbids one object: its definition keeps the old version, as the object may have it."""
    api.errors["w"] = [error(403, "denied by policy")]
    api.errors["a"] = [error(422, "not valid any more")]
    with pytest.raises(StepFailed, match=r"2 objects .*configmaps default/a \(not valid .*widgets default/w \(denied"):
        migrate(api)
    assert "configmaps b" in api.patched
    assert api.stored == ["v1", "v2"]


def test_a_resource_that_is_refused_throughout_is_left_soon(api: Api) -> None:
    """A webhook that is down refuses all alike."""
    for number in range(50):
        api.put(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, "default")
        api.errors[f"c{number}"] = [error(500, "webhook")]
    with pytest.raises(StepFailed, match="10 objects"):
        migrate(api)
    assert "widgets w" in api.patched
    assert len(api.patched) < 20


def test_an_api_that_is_away_for_a_moment_is_waited_for(api: Api) -> None:
    """A load balancer that changes over is no reason to begin anew."""
    api.errors["b"] = [ApiUnavailable("no answer"), ApiUnavailable("no answer")]
    migrate(api)
    assert api.patched.count("configmaps b") == 3


def test_an_api_that_stays_away_ends_the_step(api: Api) -> None:
    """The error says what to do: it can be repeated at any time."""
    api.errors["b"] = [ApiUnavailable("no answer")] * 100
    with pytest.raises(StepFailed, match="after 0 objects: no answer") as caught:
        migrate(api)
    assert "again" in caught.value.remedy


@pytest.mark.parametrize(
    "changes", [{"spec": {"versions": [{"name": "v3", "storage": True}]}}, {"metadata": {"generation": 3}}]
)
def test_a_definition_that_changes_meanwhile_keeps_its_stored_versions(api: Api, changes: Mapping[str, Any]) -> None:
    """Objects may have been written in another version by then."""
    step = MigrateStorageStep(api, FakeClock(), check=lambda: change(api, changes))
    step.apply(list[str]().append)
    assert api.stored == ["v1", "v2"]


def change(api: Api, changes: Mapping[str, Any]) -> None:
    """Change the definition as its owner does."""
    found = api.get(DEFINITIONS, "widgets.example.com")
    assert found is not None
    merged = {**found, **changes}
    merged["metadata"] = {**found["metadata"], **changes.get("metadata", {})}
    api.put(DEFINITIONS, merged)


def test_a_resource_that_cannot_be_listed_is_named(api: Api) -> None:
    """A conversion webhook that is down, say; one whose definition has just gone is fine."""
    api.denied.add(("list", "widgets"))
    with pytest.raises(StepFailed, match=r"widgets\.example\.com \(list widgets: Forbidden"):
        migrate(api)


def test_clients_that_suffer_end_the_step(api: Api) -> None:
    """The run's check is asked for each object."""

    def stop() -> None:
        raise StepFailed("clients were refused")

    with pytest.raises(StepFailed, match="clients"):
        MigrateStorageStep(api, FakeClock(), check=stop).apply(list[str]().append)
    assert api.patched == []
