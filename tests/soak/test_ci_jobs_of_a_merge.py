"""The scripts of the CI jobs that `upgrader init --ci` writes: a merge request, its merge, a killed run, a resume."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testkit.ci_project import GITHUB, STEP, Project
from testkit.ci_runner import GitHubRunner
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

_DEPLOYMENTS = Kind("apps/v1", "deployments")


@pytest.fixture
def project(cluster: LabCluster, tmp_path: Path) -> Project:
    """The cluster's folder in a repository, at the version that runs."""
    return Project(cluster, tmp_path)


def records(folder: Path) -> list[Mapping[str, Any]]:
    """The journal of the only run there."""
    journals = list(folder.glob("runs/*/journal.jsonl"))
    lines = journals[0].read_text().splitlines() if journals else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def in_the_middle(cluster: LabCluster, folder: Path) -> bool:
    """Whether kube-apiserver's step has begun, and Helm has written that it upgrades the release."""
    begun = any(each["type"] == "StepStarted" and each["data"]["step"] == STEP for each in records(folder))
    return begun and cluster.releases()[STEP]["status"] == "pending-upgrade"


def test_change_that_is_merged(cluster: LabCluster, project: Project) -> None:
    """A merge request is checked and planned without credentials. After the merge the plan is made, and run by a job
    that is killed in the middle of kube-apiserver's step; a second job is turned away meanwhile; and a runner that has
    never seen the run resumes it, by the other service's script, to its end. Nothing that is left has a secret."""
    mark = f"in a pipeline {uuid.uuid4().hex[:6]}"
    commit = project.change(mark)

    asked = GitHubRunner(project.scratch / "merge-request")
    for name, each in {"head": commit, "base": project.base}.items():
        project.repository.check_out(each, asked.workspace / name)
    check = asked.jobs(asked.workspace / "head" / GITHUB)["check"]
    ended = asked.run(check, "Check the folder, and show what changes", seconds=120)
    assert ended.exit_code == 0, ended.output
    assert mark in asked.summary and "coredns" not in asked.summary.lower(), "only what changes is shown"

    planned = project.github("plan", commit)
    ended = project.run(planned, "plan")
    assert ended.exit_code == 0 and planned.outputs == {"changes": "true"}, ended.output
    plan = planned.workspace / "plan"
    assert mark in (plan / "plan.md").read_text()

    first, second = (project.github(name, commit, plan) for name in ("run", "at-once"))
    job = first.jobs(first.workspace / GITHUB)["run"]
    with first.begun(*first.script(job, "Upgrade", project.secrets)) as process:
        folder = first.workspace / "clusters" / "prod"

        def going_on(held: bool) -> bool:
            assert process.poll() is None, process.communicate()[0]
            return held

        until("a run that has begun", lambda: going_on(bool(records(folder))), timeout_seconds=180)
        ended = project.run(second, "run")
        assert ended.exit_code == 6, ended.output
        until(
            "kube-apiserver's step",
            lambda: going_on(in_the_middle(cluster, folder)),
            timeout_seconds=180,
            interval_seconds=0.1,
        )
        first.kill(process)
    assert not [each for each in records(folder) if each["type"] == "StepEnded" and each["data"]["step"] == STEP]
    ended = first.run(job, "Report", seconds=60)
    assert ended.exit_code == 0, ended.output
    reports = first.workspace / "reports"
    assert {path.name for path in reports.glob("*/*")} == {"report.html", "report.md", "junit.xml"}
    assert all("controller-1" not in path.read_text() for path in reports.glob("*/*"))
    first.end()

    fresh = project.gitlab("retry", commit, plan)
    ended = project.run(fresh, "run")
    assert ended.exit_code == 0, ended.output
    assert "was interrupted: resuming it" in ended.output
    ends = [
        each["data"]["outcome"] for each in records(fresh.workspace / "clusters" / "prod") if each["type"] == "RunEnded"
    ]
    assert ends == ["succeeded"]
    assert list(fresh.workspace.glob("reports/*/junit.xml"))
    cluster.wait_healthy(OLD)
    pods = cluster.kube.get(_DEPLOYMENTS, STEP, "kube-system") or {}
    assert pods["spec"]["template"]["metadata"]["annotations"]["example.com/changed"] == mark
    for runner in (planned, first, second, fresh):
        project.no_secret_in(runner.home)

    late = project.gitlab("late", commit, plan)
    ended = project.run(late, "run")
    assert ended.exit_code == 3, ended.output
