"""A runner of a CI system, as a job's scripts see it: a fresh checkout, the variables, and nothing else.

The scripts are those of the rendered files. The services around them are simulated: checkouts are clones, artifacts are
folders that are copied, and a job gets only the secrets of its environment.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testkit.waiting import stretched

__all__ = ["GitHubRunner", "GitLabRunner", "JobEnded", "Repository"]

_SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")


@dataclass(frozen=True)
class JobEnded:
    """How a script ended, and its output."""

    exit_code: int
    output: str


@dataclass(frozen=True)
class Repository:
    """A git repository with a cluster's folder, as the CI system has it."""

    path: Path

    def commit(self, message: str) -> str:
        """Commit everything in the folder; returns the commit."""
        if not (self.path / ".git").exists():
            self._git("init", "--quiet", "--initial-branch=main")
        self._git("add", "--all")
        self._git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", message)
        return self._git("rev-parse", "HEAD").strip()

    def check_out(self, commit: str, where: Path) -> Path:
        """A new clone."""
        subprocess.run(["git", "clone", "--quiet", self.path, where], check=True, capture_output=True)
        subprocess.run(["git", "-C", where, "checkout", "--quiet", commit], check=True, capture_output=True)
        return where

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class _Runner:
    """A machine that has never run a job. `programs` comes first on its PATH."""

    home: Path
    programs: Path = Path(sys.executable).parent

    @property
    def workspace(self) -> Path:
        """Where the repository is checked out."""
        return self.home / "work" / "project"

    @contextmanager
    def begun(self, script: str, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
        """The script's process, in a session of its own; what is left of it is killed at the end."""
        for folder in (self.home / "user", self.home / "temp", self.workspace):
            folder.mkdir(parents=True, exist_ok=True)
        own = {"HOME": str(self.home / "user"), "PATH": f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin", "CI": "true"}
        process = subprocess.Popen(
            [*_SHELL, "-c", script],
            cwd=self.workspace,
            env={**own, **self._variables(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            self.kill(process)
            assert process.stdout is not None
            process.stdout.close()

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End the script and everything that it started, as a runner does with a job that exceeds its time limit."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._end_agents()

    def _end_agents(self) -> None:
        """An agent has a session of its own; a runner finds a job's leftover processes by its environment."""
        mine = f"HOME={self.home / 'user'}\0".encode()
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or belongs to another user
                if (each / "comm").read_text() == "ssh-agent\n" and mine in (each / "environ").read_bytes():
                    os.kill(int(each.name), signal.SIGKILL)

    def _run(self, script: str, variables: Mapping[str, str], seconds: float) -> JobEnded:
        with self.begun(script, variables) as process:
            output, _ = process.communicate(timeout=stretched(seconds))
        return JobEnded(process.returncode, output)

    def _variables(self) -> Mapping[str, str]:
        raise NotImplementedError


@dataclass(frozen=True)
class GitHubRunner(_Runner):
    """Runs steps of a workflow."""

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs that steps have set."""
        file = self.home / "output"
        return dict(line.split("=", 1) for line in file.read_text().splitlines()) if file.exists() else {}

    @property
    def summary(self) -> str:
        """The summaries that steps have written."""
        return (self.home / "summary").read_text()

    def run(
        self, job: Mapping[str, Any], step: str, secrets: Mapping[str, str] | None = None, seconds: float = 600.0
    ) -> JobEnded:
        """Runs one step of a job, by its name, to its end. Secrets that the job's environment lacks are empty."""
        script, variables = self.script(job, step, secrets or {})
        return self._run(script, variables, seconds)

    def script(self, job: Mapping[str, Any], step: str, secrets: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        """A step's script, and its variables."""
        found = next(each for each in job["steps"] if each.get("name") == step)
        given = {
            name: secrets.get(text.removeprefix("${{ secrets.").removesuffix(" }}"), "")
            for name, text in found.get("env", {}).items()
        }
        return found["run"], {"FOLDER": job["FOLDER"], **given}

    def end(self) -> None:
        """Empty the folder of temporary files, as the service's runner does after each job."""
        shutil.rmtree(self.home / "temp", ignore_errors=True)

    @staticmethod
    def jobs(file: Path) -> Mapping[str, Mapping[str, Any]]:
        """The jobs of a workflow, each with the workflow's variable FOLDER."""
        content = yaml.safe_load(file.read_text())
        return {name: {**job, "FOLDER": content["env"]["FOLDER"]} for name, job in content["jobs"].items()}

    def _variables(self) -> Mapping[str, str]:
        return {
            "RUNNER_TEMP": str(self.home / "temp"),
            "GITHUB_OUTPUT": str(self.home / "output"),
            "GITHUB_STEP_SUMMARY": str(self.home / "summary"),
        }


@dataclass(frozen=True)
class GitLabRunner(_Runner):
    """Runs jobs of a pipeline."""

    def run(
        self, job: Mapping[str, Any], variables: Mapping[str, str] | None = None, seconds: float = 600.0
    ) -> JobEnded:
        """A job's script, to its end, and `after_script` in a shell of its own."""
        given = {"FOLDER": job["FOLDER"], **(variables or {})}
        ended = self._run("\n".join(job["script"]), given, seconds)
        self._run("\n".join(job.get("after_script", [])), given, seconds)
        return ended

    def secret_files(self, secrets: Mapping[str, str]) -> Mapping[str, str]:
        """Variables of type File: each has the path of a file with its content."""
        folder = self.home / "work" / "project.tmp"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in secrets.items():
            (folder / name).write_text(text)
        return {name: str(folder / name) for name in secrets}

    @staticmethod
    def jobs(file: Path) -> Mapping[str, Mapping[str, Any]]:
        """The jobs of a pipeline, each with the variable FOLDER."""
        content = yaml.safe_load(file.read_text())
        folder = next(job["variables"]["FOLDER"] for name, job in content.items() if name.startswith("."))
        return {name: {**job, "FOLDER": folder} for name, job in content.items() if not name.startswith(".")}

    def _variables(self) -> Mapping[str, str]:
        return {"CI_PROJECT_DIR": str(self.workspace)}
