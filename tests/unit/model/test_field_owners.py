"""Who changed what of a release's workload, by the managed fields that an API server keeps."""

from __future__ import annotations

import copy
from typing import Any

from upgrader.model.field_owners import foreign_changes

TEMPLATE: dict[str, Any] = {
    "metadata": {"annotations": {"turn": "2"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/web:v2",
                "args": ["--port=80", "--verbose"],
                "env": [{"name": "TOKEN", "value": "new"}],
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1000m"}},
            }
        ]
    },
}
CONTAINER = 'k:{"name":"main"}'


def owned(*fields: str) -> dict[str, Any]:
    """FieldsV1 of these fields of the container, and of the annotation `turn`."""
    every: dict[str, Any] = {
        "f:image": {},
        "f:args": {},
        "f:env": {'k:{"name":"TOKEN"}': {".": {}, "f:name": {}, "f:value": {}}},
        "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
        "f:resources": {"f:limits": {"f:cpu": {}}},
    }
    container = {".": {}, "f:name": {}, **{key: value for key, value in every.items() if key in fields or not fields}}
    template: dict[str, Any] = {"f:spec": {"f:containers": {CONTAINER: container}}}
    if not fields or "turn" in fields:
        template["f:metadata"] = {"f:annotations": {"f:turn": {}}}
    return {"f:spec": {"f:template": template}}


def entry(manager: str, fields: dict[str, Any], time: str = "2026-01-01T10:00:00Z", **more: Any) -> dict[str, Any]:
    """One of `managedFields`."""
    return {"manager": manager, "operation": "Apply", "time": time, "fieldsV1": fields, **more}


def live(*entries: dict[str, Any], **container: Any) -> dict[str, Any]:
    """The workload as the API server has it, with these fields of its container; a default is filled in."""
    template = copy.deepcopy(TEMPLATE)
    template["spec"]["containers"][0] |= {"imagePullPolicy": "IfNotPresent", **container}
    template["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"
    return {"metadata": {"name": "web", "managedFields": list(entries)}, "spec": {"template": template}}


def without(*fields: str) -> dict[str, Any]:
    """What Helm still owns once others have taken these."""
    return owned(*({"f:image", "f:args", "f:env", "f:ports", "f:resources", "turn"} - {*fields}))


def test_what_helm_applied_is_nobodys_change() -> None:
    """Defaults, another way to write a quantity, and what a policy made of Helm's own write are no changes."""
    assert foreign_changes(live(entry("helm", owned())), TEMPLATE) == ()
    rewritten = live(entry("helm", owned()), image="mirror.example/web:v2", resources={"limits": {"cpu": "1"}})
    assert foreign_changes(rewritten, TEMPLATE) == ()


def test_reverted_image_is_named_with_its_writer() -> None:
    """A GitOps controller that applied the old image owns it alone; what it has in common with Helm is no change."""
    theirs = entry("argocd-controller", owned(), "2026-01-01T10:00:02Z")
    found = live(entry("helm", without("f:image")), theirs, image="registry.example/web:v1")
    (change,) = foreign_changes(found, TEMPLATE)
    assert (change.manager, change.field) == ("argocd-controller", "spec.template.spec.containers[main].image")
    assert str(change) == (
        "field manager argocd-controller changed spec.template.spec.containers[main].image at 2026-01-01T10:00:02Z: "
        "registry.example/web:v1 instead of registry.example/web:v2"
    )


def test_of_arguments_only_the_difference_is_told() -> None:
    """A list without identities has one owner, and most of it is the same."""
    edited = live(
        entry("helm", without("f:args")), entry("kubectl-edit", owned("f:args")), args=["--port=80", "--quiet"]
    )
    (change,) = foreign_changes(edited, TEMPLATE)
    assert (change.found, change.wanted) == ('["--quiet"]', '["--verbose"]')


def test_environment_is_not_shown() -> None:
    """A variable may be a password: its name says enough."""
    taken = live(
        entry("helm", without("f:env")), entry("vault", owned("f:env")), env=[{"name": "TOKEN", "value": "secret"}]
    )
    (change,) = foreign_changes(taken, TEMPLATE)
    assert "env[TOKEN].value" in str(change) and "secret" not in str(change) and "new" not in str(change)


def test_annotation_of_the_template_counts() -> None:
    """What the manifest has under `metadata` of the pods is applied, too."""
    edited = live(entry("helm", without("turn")), entry("kubectl-edit", owned("turn")))
    edited["spec"]["template"]["metadata"]["annotations"]["turn"] = "by hand"
    (change,) = foreign_changes(edited, TEMPLATE)
    assert change.field == "spec.template.metadata.annotations.turn"


def test_additions_take_nothing_from_the_release() -> None:
    """The annotation of `kubectl rollout restart`, and a variable that somebody adds, aren't in the manifest."""
    restarted: dict[str, Any] = {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:restartedAt": {}}}}}}
    found = live(entry("helm", owned()), entry("kubectl-rollout", restarted))
    found["spec"]["template"]["metadata"]["annotations"]["restartedAt"] = "now"
    found["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "ADDED", "value": "1"})
    assert foreign_changes(found, TEMPLATE) == ()


def first_written(field: str, wanted: Any, found: Any) -> tuple[str, ...]:
    """What is said of a field of the container that kubeadm wrote once, and Helm 3 left as it was."""
    template, workload = copy.deepcopy(TEMPLATE), live(entry("helm", owned()))
    template["spec"]["containers"][0][field] = wanted
    workload["spec"]["template"]["spec"]["containers"][0][field] = found
    theirs: dict[str, Any] = {"f:spec": {"f:template": {"f:spec": {"f:containers": {CONTAINER: {f"f:{field}": {}}}}}}}
    workload["metadata"]["managedFields"].append(entry("kubeadm", theirs))
    return tuple(change.field for change in foreign_changes(workload, template))


def test_what_helm_3_left_to_its_first_writer() -> None:
    """Helm 3 owns only what it changed. What the API server has filled in below such a field, or written in another
    form, is no change; another value is.
    """
    source = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    defaulted = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
    assert first_written("x", source, defaulted) == ()
    assert first_written("x", [source, {"divisor": "700m"}], [defaulted, {"divisor": "0.7"}]) == ()
    assert first_written("x", None, {"restartedAt": "now"}) == ()
    assert first_written("x", source, {"fieldRef": {"fieldPath": "spec.other"}}) == (
        "spec.template.spec.containers[main].x",
    )
    assert first_written("x", [source], [defaulted, defaulted]) != ()


def test_resources_are_those_of_who_sizes_an_add_on() -> None:
    """An add-on resizer, or a proportional autoscaler, writes them into the Deployment right behind Helm."""
    found = live(entry("helm", without("f:resources")), entry("pod_nanny", owned("f:resources")))
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    assert foreign_changes(found, TEMPLATE) == ()


def test_nothing_is_said_without_managed_fields_of_helm() -> None:
    """After a restore they may be gone; the status's writers own nothing of the spec."""
    assert foreign_changes(live(image="other"), TEMPLATE) == ()
    status = entry("kube-controller-manager", owned(), subresource="status")
    assert foreign_changes(live(status, image="other"), TEMPLATE) == ()


def test_item_that_is_gone_is_left_to_the_rollout() -> None:
    """Nobody is noted as the owner of what is gone, and nothing tells whether it was ever kept."""
    found = live(entry("helm", without("f:env")), entry("kubectl-edit", owned("f:image")))
    del found["spec"]["template"]["spec"]["containers"][0]["env"]
    assert foreign_changes(found, TEMPLATE) == ()
