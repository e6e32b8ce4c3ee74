"""The scripts of the CI jobs that `upgrader init --ci` writes, in the order in which the services run them."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.ci_runner import GitHubRunner, GitLabRunner, JobEnded, Repository
from testkit.command import upgrader
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

_STEP = "kube-apiserver"
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_GITHUB, _GITLAB = Path(".github/workflows/upgrader-prod.yml"), Path(".gitlab/upgrader-prod.yml")


class Project:
    """A repository with the folder of a lab's cluster, as `init` would have written it, and its credentials beside."""

    def __init__(self, cluster: LabCluster, scratch: Path) -> None:
        self.scratch = scratch
        self.repository = Repository(scratch / "repository")
        self.folder = self.repository.path / "clusters" / "prod"
        self.folder.mkdir(parents=True)
        for name in ("upgrader.yaml", "values"):
            source = cluster.folder / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, self.folder / name)
        self.secrets = {
            "KUBECONFIG": (cluster.folder / "kubeconfig").read_text(),
            "SSH_KEY": (cluster.folder / "ssh" / "id_ed25519").read_text(),
        }
        inventory = yaml.safe_load((cluster.folder / "hosts.yml").read_text())
        known = "-o StrictHostKeyChecking=yes -o UserKnownHostsFile='{{ inventory_dir }}/ssh/known_hosts'"
        inventory["all"]["vars"] = {"ansible_user": "root", "ansible_ssh_common_args": known}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
        (self.folder / "ssh").mkdir()
        shutil.copy2(cluster.folder / "ssh" / "known_hosts", self.folder / "ssh")
        (self.folder / ".gitignore").write_text("/kubeconfig\n/runs/\n")
        self.repository.commit("a cluster")
        for system in ("github", "gitlab"):
            ended = upgrader("-C", self.folder, "init", "--ci", system, "--yes", timeout_seconds=60)
            assert ended.exit_code == 0, ended
        self.base = self.repository.commit("its jobs")

    def change(self, annotation: str) -> str:
        """A merged change of kube-apiserver's pods; returns the commit."""
        file = self.folder / "values" / f"{_STEP}.yaml"
        values = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump({**values, "podAnnotations": {"example.com/changed": annotation}}))
        return self.repository.commit(annotation)

    def github(self, name: str, commit: str, plan: Path | None = None) -> GitHubRunner:
        """A new machine with a checkout, and with the plan job's artifact."""
        runner = GitHubRunner(self.scratch / name)
        self._ready(runner, commit, plan)
        return runner

    def gitlab(self, name: str, commit: str, plan: Path | None = None) -> GitLabRunner:
        """The same of the other service."""
        runner = GitLabRunner(self.scratch / name)
        self._ready(runner, commit, plan)
        return runner

    def run(self, runner: GitHubRunner | GitLabRunner, job: str) -> JobEnded:
        """The plan's or the run's job, with what its environment has."""
        if isinstance(runner, GitHubRunner):
            jobs = runner.jobs(runner.workspace / _GITHUB)
            return runner.run(jobs[job], {"plan": "Plan", "run": "Upgrade"}[job], self.secrets)
        files = {f"{name}_FILE": text for name, text in self.secrets.items()}
        return runner.run(runner.jobs(runner.workspace / _GITLAB)[f"upgrader-prod-{job}"], runner.secret_files(files))

    def no_secret_in(self, *folders: Path) -> None:
        """Nothing that a job leaves there has the kubeconfig's credentials or the key."""
        user = yaml.safe_load(self.secrets["KUBECONFIG"])["users"][0]["user"]
        secrets = [user.get("client-key-data") or user["token"], self.secrets["SSH_KEY"].splitlines()[1]]
        for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
            assert not any(secret in path.read_text(errors="replace") for secret in secrets), path

    def _ready(self, runner: GitHubRunner | GitLabRunner, commit: str, plan: Path | None) -> None:
        self.repository.check_out(commit, runner.workspace)
        if plan is not None:
            shutil.copytree(plan, runner.workspace / "plan")


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
    begun = any(each["type"] == "StepStarted" and each["data"]["step"] == _STEP for each in records(folder))
    return begun and cluster.releases()[_STEP]["status"] == "pending-upgrade"


def test_change_that_is_merged(cluster: LabCluster, project: Project) -> None:
    """A merge request is checked and planned without credentials. After the merge the plan is made, and run by a job
    that is killed in the middle of kube-apiserver's step; a second job is turned away meanwhile; and a runner that has
    never seen the run resumes it, by the other service's script, to its end. Nothing that is left has a secret."""
    mark = f"in a pipeline {uuid.uuid4().hex[:6]}"
    commit = project.change(mark)

    asked = GitHubRunner(project.scratch / "merge-request")
    for name, each in {"head": commit, "base": project.base}.items():
        project.repository.check_out(each, asked.workspace / name)
    check = asked.jobs(asked.workspace / "head" / _GITHUB)["check"]
    ended = asked.run(check, "Check the folder, and show what changes", seconds=120)
    assert ended.exit_code == 0, ended.output
    assert mark in asked.summary and "coredns" not in asked.summary.lower(), "only what changes is shown"

    planned = project.github("plan", commit)
    ended = project.run(planned, "plan")
    assert ended.exit_code == 0 and planned.outputs == {"changes": "true"}, ended.output
    plan = planned.workspace / "plan"
    assert mark in (plan / "plan.md").read_text()

    first, second = (project.github(name, commit, plan) for name in ("run", "at-once"))
    job = first.jobs(first.workspace / _GITHUB)["run"]
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
    assert not [each for each in records(folder) if each["type"] == "StepEnded" and each["data"]["step"] == _STEP]
    ended = first.run(job, "Report", seconds=60)
    assert ended.exit_code == 0, ended.output
    reports = first.workspace / "reports"
    assert {path.name for path in reports.glob("*/*")} == {"report.html", "report.md", "junit.xml"}
    assert all("controller-1" not in path.read_text() for path in reports.glob("*/*"))
    first.end()

    fresh = project.gitlab("retry", commit, plan)
    ended = project.run(fresh, "run")
    assert ended.exit_code == 0, ended.output
    assert "was interrupted: it is resumed" in ended.output
    ends = [
        each["data"]["outcome"] for each in records(fresh.workspace / "clusters" / "prod") if each["type"] == "RunEnded"
    ]
    assert ends == ["succeeded"]
    assert list(fresh.workspace.glob("reports/*/junit.xml"))
    cluster.wait_healthy(OLD)
    pods = cluster.kube.get(_DEPLOYMENTS, _STEP, "kube-system") or {}
    assert pods["spec"]["template"]["metadata"]["annotations"]["example.com/changed"] == mark
    for runner in (planned, first, second, fresh):
        project.no_secret_in(runner.home)

    late = project.gitlab("late", commit, plan)
    ended = project.run(late, "run")
    assert ended.exit_code == 3, ended.output


def test_merge_request_of_a_stranger(project: Project, tmp_path: Path) -> None:
    """Programs, templates, links and plugins in the folder: no job without credentials executes one of them, or shows
    what is beside the folder; and there are no credentials."""
    ran, beside = tmp_path / "ran", tmp_path / "beside"
    beside.write_text("theirs: what-is-beside-the-folder\n")
    folder, touch = project.folder, f"touch {ran}"
    pipe = f"{{{{ lookup('pipe', '{touch}') }}}}"
    program = folder / "program.sh"
    program.write_text(f"#!/bin/sh\n{touch}\necho '{{}}'\n")
    program.chmod(0o755)
    play = {"hosts": "all", "tasks": [{"ansible.builtin.command": touch, "delegate_to": "localhost"}]}
    (folder / "steal.yml").write_text(yaml.safe_dump([{**play, "vars": {"x": pipe}}]))
    (folder / "ansible.cfg").write_text(f"[defaults]\ninventory = {program}\nvault_password_file = {program}\n")
    inventory = yaml.safe_load((folder / "hosts.yml").read_text())
    inventory["all"]["vars"]["ansible_ssh_common_args"] = f"-o ProxyCommand='{program}' {pipe}"
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    (folder / "kubeconfig.yml").write_text(yaml.safe_dump({"users": [{"name": "me", "user": {"exec": plugin}}]}))
    settings = yaml.safe_load((folder / "upgrader.yaml").read_text())
    settings["cluster"] = {"kubeconfig": "kubeconfig.yml", "dynamicInventory": True}
    settings["pipeline"] = [{"release": _STEP}, {"playbook": "steal.yml"}]
    (folder / "upgrader.yaml").write_text(yaml.safe_dump(settings))
    file = folder / "values" / f"{_STEP}.yaml"
    reads = {"podAnnotations": {"x": f'{{{{ .Files.Get "{beside}" }}}}'}}
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **reads}))
    commit = project.repository.commit("please merge")

    asked = project.gitlab("merge-request", commit)
    job = asked.jobs(asked.workspace / _GITLAB)["upgrader-prod-check"]
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": project.base}
    ended = asked.run(job, base, 120)
    shown = ended.output + (asked.workspace / "plan.md").read_text()
    assert ended.exit_code == 0 and ".Files.Get" in shown and "steal.yml" in shown, shown
    assert "what-is-beside-the-folder" not in shown, shown
    assert not ran.exists()

    (folder / "hosts.yml").unlink()
    (folder / "hosts.yml").symlink_to(program.name)
    file.unlink()
    file.symlink_to(beside)
    commit = project.repository.commit("please merge this")
    again = project.gitlab("merge-request-2", commit)
    ended = again.run(job, base, 120)
    assert ended.exit_code in (2, 3) and "leads out of the folder" in ended.output, ended.output
    assert "what-is-beside-the-folder" not in ended.output, ended.output
    assert not ran.exists()
