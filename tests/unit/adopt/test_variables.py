"""Variables of a static pod's container: a chart renders them by name, and the program sees what it saw before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.unit.adopt.kubeadm_pods import kubeadm_facts, kubeadm_pod
from upgrader.adopt.undo_differences import check_undo, released_in
from upgrader.adopt.values import base_values
from upgrader.adopt.variables import seen_variables, variables_of


def _container(*entries: tuple[str, Any]) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value} for name, value in entries]}


@pytest.mark.parametrize(
    ("entries", "seen"),
    [
        ([("PROXY", "http://proxy"), ("HTTPS_PROXY", "$(PROXY)/x")], {"PROXY": "http://proxy", "HTTPS_PROXY": "http://proxy/x"}),
        ([("A", "$(B)"), ("B", "b")], {"A": "$(B)", "B": "b"}),
        ([("B", "b"), ("A", "$$(B)")], {"A": "$(B)", "B": "b"}),
        ([("B", "$$"), ("A", "$(B)(C)"), ("C", "c")], {"A": "$(C)", "B": "$", "C": "c"}),
        ([("A", "pa$word $( x")], {"A": "pa$word $( x"}),
        ([("A", None), ("B", "")], {"A": "", "B": ""}),
        ([("A", "first"), ("A", "last")], {"A": "last"}),
    ],
    ids=["another's value", "one that comes later", "no reference", "a dollar of another", "plain", "empty", "twice"],
)  # fmt: skip
def test_a_program_sees_the_same(entries: list[tuple[str, Any]], seen: dict[str, str]) -> None:
    """In the order that the manifest has, and in that of the chart, for which what isn't plain is written out."""
    container = _container(*entries)
    assert seen_variables(container) == seen
    values = variables_of(container)
    assert seen_variables(_container(*sorted(values.items()))) == seen


def test_plain_values_stay_as_they_are() -> None:
    """Nothing is written otherwise than the operator did, unless it must be. A value from elsewhere is none."""
    field = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert variables_of({"env": [{"name": "A", "value": "pa$word"}, field]}) == {"A": "pa$word"}
    assert variables_of({}) == {}


def test_a_reference_is_written_out_and_no_loss_to_an_undo() -> None:
    """The values files have its text; kubeadm's manifest, which has the reference, means the same."""
    pod = kubeadm_pod("kube-scheduler", container=_container(("PROXY", "http://proxy"), ("HTTPS_PROXY", "$(PROXY)")))
    known = kubeadm_facts(pod)
    values = base_values(known, ("10.0.0.1",), {})["kubernetes"]["scheduler"]["extraEnv"]
    assert values == {"PROXY": "http://proxy", "HTTPS_PROXY": "http://proxy"}
    spec = {"containers": [{**pod.container, **_container(*sorted(values.items()))}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kube-scheduler"},
        "spec": {"template": {"spec": spec}},
    }
    retired = [replace(each, active={}, adopted={"kube-scheduler": pod}) for each in known.controllers]
    check_undo(retired, released_in([yaml.safe_dump(deployment)]), {})
