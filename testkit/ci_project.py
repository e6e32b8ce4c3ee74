"""A repository with a lab's cluster folder and the CI jobs from `upgrader init --ci`."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from testkit.ci_runner import GitHubRunner, GitLabRunner, JobEnded, Repository
from testkit.command import upgrader
from testkit.lab_cluster import LabCluster

__all__ = ["GITHUB", "GITLAB", "STEP", "Project"]

STEP = "kube-apiserver"
"""The file that a change edits."""
GITHUB, GITLAB = Path(".github/workflows/upgrader-prod.yml"), Path(".gitlab/upgrader-prod.yml")
"""Where the jobs are."""


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
        file = self.folder / "values" / f"{STEP}.yaml"
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
        """The job of the plan or of the run, with the secrets of its environment."""
        if isinstance(runner, GitHubRunner):
            jobs = runner.jobs(runner.workspace / GITHUB)
            return runner.run(jobs[job], {"plan": "Plan", "run": "Upgrade"}[job], self.secrets)
        files = {f"{name}_FILE": text for name, text in self.secrets.items()}
        return runner.run(runner.jobs(runner.workspace / GITLAB)[f"upgrader-prod-{job}"], runner.secret_files(files))

    def no_secret_in(self, *folders: Path) -> None:
        """No file that a job leaves there contains the kubeconfig's credentials or the key."""
        user = yaml.safe_load(self.secrets["KUBECONFIG"])["users"][0]["user"]
        secrets = [user.get("client-key-data") or user["token"], self.secrets["SSH_KEY"].splitlines()[1]]
        for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
            assert not any(secret in path.read_text(errors="replace") for secret in secrets), path

    def _ready(self, runner: GitHubRunner | GitLabRunner, commit: str, plan: Path | None) -> None:
        self.repository.check_out(commit, runner.workspace)
        if plan is not None:
            shutil.copytree(plan, runner.workspace / "plan")
