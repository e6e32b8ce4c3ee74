"""Which resources a cluster stores."""

from __future__ import annotations

import json

import pytest

from upgrader.model.stored_resources import stored_resources

ALL = ["create", "get", "list", "patch", "update"]


def group(name: str, preferred: str, *versions: str) -> dict[str, object]:
    """An entry of `/apis`."""
    return {
        "name": name,
        "versions": [{"groupVersion": f"{name}/{version}"} for version in versions],
        "preferredVersion": {"groupVersion": f"{name}/{preferred}"},
    }


def resources(**verbs: list[str]) -> str:
    """What a group version has; `nodes` are the only ones without a namespace."""
    return json.dumps(
        {
            "resources": [
                {"name": name.replace("__", "/"), "namespaced": name != "nodes", "verbs": found}
                for name, found in verbs.items()
            ]
        }
    )


ANSWERS = {
    "/apis": json.dumps(
        {
            "groups": [
                group("apps", "v1", "v2beta1", "v1"),
                group("events.k8s.io", "v1", "v1"),
                group("metrics.k8s.io", "v1", "v1"),
            ]
        }
    ),
    "/api/v1": resources(nodes=ALL, secrets=ALL, secrets__status=ALL, events=ALL, bindings=["create"]),
    "/apis/apps/v1": resources(deployments=ALL),
    "/apis/apps/v2beta1": resources(deployments=ALL, sets=ALL),
    "/apis/events.k8s.io/v1": resources(events=ALL),
    "/apis/metrics.k8s.io/v1": resources(pods=ALL),
}


def test_each_resource_comes_once() -> None:
    """At the preferred version where that has it. Without subresources, what is only created, what expires, and what
    another API server stores.
    """
    found = list(stored_resources(ANSWERS.__getitem__, {"metrics.k8s.io/v1"}))
    assert [(str(item), item.api_version, item.namespaced) for item in found] == [
        ("nodes", "v1", False),
        ("secrets", "v1", True),
        ("deployments.apps", "apps/v1", True),
        ("sets.apps", "apps/v2beta1", True),
    ]


def test_one_group_alone_is_read() -> None:
    """The others' resources aren't asked for: an aggregated API server may not answer."""
    answers = {path: text for path, text in ANSWERS.items() if path in ("/apis", "/api/v1")}
    assert [str(item) for item in stored_resources(answers.__getitem__, (), only="")] == ["nodes", "secrets"]


def test_an_answer_that_is_none_is_an_error() -> None:
    """A proxy's page, say: unknown is not "nothing is stored"."""
    with pytest.raises(ValueError, match="can't be parsed"):
        list(stored_resources(lambda path: "{}", ()))
