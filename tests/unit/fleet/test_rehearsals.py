"""R6: a cluster whose folder demands a rehearsal isn't begun without one that is valid."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testkit.fleet_machine import TARGET, Machine, begun, coordinator, inputs, phases
from upgrader import __version__
from upgrader.app.rehearsal_records import folder_inputs, folder_seal
from upgrader.fleet.clusters import Answer
from upgrader.model.finding import Finding
from upgrader.model.json_values import to_json
from upgrader.model.rehearsal_record import RehearsalRecord
from upgrader.model.saved_plan import PlanBinding
from upgrader.model.version import KubernetesVersion

CURRENT = KubernetesVersion.release("v1.36.3")
REQUIRE = "kubernetesVersion: v1.36.3\npolicy: {rehearsal: {mode: require, maxAge: 7d}}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A fleet of which cluster b demands a rehearsal, and runs the version before."""
    machine = Machine(tmp_path)
    (tmp_path / "clusters/b/upgrader.yaml").write_text(REQUIRE)
    machine.answers["b"] = Answer("u2", CURRENT)
    return machine


def rehearse(machine: Machine, time: datetime, *findings: Finding) -> dict[str, Any]:
    """Cluster b, as it is."""
    digest = folder_inputs(machine.folder / "clusters/b")
    assert digest == inputs(machine, "b").files, "`rehearse` writes down what a campaign compares"
    sealed = folder_seal(digest, "salt")
    binding = PlanBinding(__version__, "u2", CURRENT, TARGET, (), ())
    record: dict[str, Any] = to_json(
        RehearsalRecord("1", time.isoformat(), "controller-1", "salt", binding, findings, sealed)
    )
    return record


def write(machine: Machine, record: Mapping[str, Any]) -> None:
    runs = machine.folder / "clusters/b/runs"
    runs.mkdir(exist_ok=True)
    (runs / "rehearsal.json").write_text(json.dumps(record))


def bound(record: dict[str, Any], **changed: str) -> dict[str, Any]:
    return {**record, "binding": {**record["binding"], **changed}}


GONE = Finding("rehearsal.gone", "error", "webs are not served", "3 of them.")
OTHERS: dict[str, tuple[Callable[[dict[str, Any], datetime], dict[str, Any]], str]] = {
    "target": (lambda record, _: bound(record, target="v1.37.0"), "the upgrade to v1.37.1 was not rehearsed"),
    "cluster": (lambda record, _: bound(record, cluster_uid="u9"), "it was made for another cluster"),
    "version": (lambda record, _: bound(record, current="v1.36.2"), "the API server was at v1.36.2"),
    "upgrader": (lambda record, _: bound(record, tool_version="0"), "it was made by upgrader 0"),
    "files": (lambda record, _: {**record, "folder": "other"}, "the folder's files have changed"),
    "no files": (lambda record, _: {**record, "folder": ""}, "the folder's files have changed"),
    "age": (lambda record, now: {**record, "rehearsed": (now - timedelta(days=8)).isoformat()}, "is too old"),
    "findings": (lambda record, _: {**record, "findings": [to_json(GONE)]}, "webs are not served: 3 of them."),
    "damaged": (lambda record, _: {**record, "rehearsed": "yesterday"}, "can't be used"),
    "no zone": (lambda record, _: {**record, "rehearsed": "2026-01-01T00:00:00"}, "its time has no time zone"),
}
"""What a record may be that isn't valid, and what is said of it."""


@pytest.mark.parametrize("other", ["none", *OTHERS])
def test_cluster_without_a_valid_rehearsal_waits(machine: Machine, other: str) -> None:
    """It waits for a person with the reason and the command, and counts as no failure; the others go on. Once it is
    rehearsed, it begins.
    """
    campaign = begun(machine)
    good, said = rehearse(machine, machine.clock.now()), "the upgrade to v1.37.1 was not rehearsed"
    if other != "none":
        change, said = OTHERS[other]
        write(machine, change(good, machine.clock.now()))
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "succeeded"} and decision.stop == ""
    assert state.clusters["b"].problem == "rehearsal" and decision.waits["b"].person
    reason = decision.waits["b"].reason
    assert said in reason and "clusters/b rehearse --to v1.37.1" in reason
    write(machine, good)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_interrupted_run_needs_no_other_rehearsal(machine: Machine) -> None:
    """It was asked for one before it began, and the API server may be at any version by now."""
    machine.exit_codes = {"b": [130]}
    campaign = begun(machine)
    write(machine, rehearse(machine, machine.clock.now()))
    one = coordinator(machine, campaign)
    while "interrupted" not in phases(campaign).values():
        one.look()
        machine.clock.sleep(60)
    (machine.folder / "clusters/b/runs/rehearsal.json").unlink()
    assert one.run(lambda *_: None)[0].done


def test_several_minors_are_rehearsed_one_by_one(machine: Machine) -> None:
    """No command could rehearse the whole way: it is said which campaign comes first."""
    machine.answers["b"] = Answer("u2", KubernetesVersion.release("v1.35.0"))
    decision, _ = coordinator(machine, begun(machine)).run(lambda *_: None)
    assert "only the next minor version can be rehearsed" in decision.waits["b"].reason


def test_policy_that_demands_none(machine: Machine) -> None:
    """`warn` is for people who read plans: a campaign doesn't wait."""
    (machine.folder / "clusters/b/upgrader.yaml").write_text(REQUIRE.replace("require", "warn"))
    assert coordinator(machine, begun(machine)).run(lambda *_: None)[0].done
