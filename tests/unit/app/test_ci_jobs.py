"""The CI jobs that `upgrader init --ci` writes: valid, careful with secrets, and no obstacle to what is there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.ci_runner import GitHubRunner, GitLabRunner
from upgrader.app.ci_jobs import CiSystem, propose_jobs
from upgrader.errors import UsageError

SYSTEMS: tuple[CiSystem, ...] = ("github", "gitlab")
SECRET = "a-token-that-nobody-may-see"
KEY = "-----BEGIN OPENSSH " + "PRIVATE KEY-----"
UPGRADER = f"""\
#!{sys.executable}
import os, pathlib, sys
home = pathlib.Path(os.environ["HOME"]).parent
kubeconfig = pathlib.Path(os.environ.get("UPGRADER_KUBECONFIG", "/nowhere"))
with (home / "calls").open("a") as calls:
    print(" ".join(sys.argv[1:]), file=calls)
(home / "environment").write_text(repr(dict(os.environ)))
if kubeconfig.exists():
    (home / "seen").write_text(kubeconfig.read_text())
    (home / "mode").write_text(oct(kubeconfig.stat().st_mode & 0o777))
if "--out" in sys.argv:
    pathlib.Path(sys.argv[sys.argv.index("--out") + 1]).write_text("{{}}")
if "run" in sys.argv:
    assert pathlib.Path(sys.argv[sys.argv.index("--plan") + 1]).exists()
print("# what it prints")
sys.exit(int((home / "exit-code").read_text()))
"""
"""Stands in for upgrader: notes how it was called, and ends as it is told to."""
AGENT = """\
#!/bin/sh
case $1 in -k) touch "$HOME/../agent-ended" ;; *) echo 'SSH_AUTH_SOCK=/agent; export SSH_AUTH_SOCK;' ;; esac
"""
ADD = '#!/bin/sh\ncat > "$HOME/../key"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster's folder in a repository that has several."""
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    folder = tmp_path / "repository" / "clusters" / "prod"
    folder.mkdir(parents=True)
    return folder


def written(folder: Path, system: CiSystem) -> Path:
    """The file with the jobs."""
    proposed = propose_jobs(folder, system)
    proposed.write()
    return next(iter(proposed.texts))


def runner(tmp_path: Path, system: CiSystem, exit_code: int) -> Any:
    """A machine whose upgrader and ssh-agent are stand-ins."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {"upgrader": UPGRADER, "ssh-agent": AGENT, "ssh-add": ADD}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    made = (GitHubRunner if system == "github" else GitLabRunner)(tmp_path / "machine", programs)
    made.workspace.mkdir(parents=True)
    (made.home / "exit-code").write_text(str(exit_code))
    return made


def run(runner: Any, file: Path, job: str) -> int:
    """The plan's or the run's script, with the secrets of its environment."""
    if isinstance(runner, GitHubRunner):
        steps = {"plan": "Plan", "run": "Upgrade"}
        secrets = {"KUBECONFIG": SECRET, "SSH_KEY": KEY}
        ended = runner.run(runner.jobs(file)[job], steps[job], secrets, 60)
    else:
        variables = runner.secret_files({"KUBECONFIG_FILE": SECRET, "SSH_KEY_FILE": KEY})
        ended = runner.run(runner.jobs(file)[f"upgrader-prod-{job}"], variables, 60)
    assert SECRET not in ended.output and KEY not in ended.output
    return int(ended.exit_code)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("root", [False, True])
def test_published_schema_accepts_it(folder: Path, system: CiSystem, root: bool) -> None:
    """Of a cluster in a folder, and of a repository that is a cluster's folder."""
    where = folder.parents[1] if root else folder
    written(where, system)
    made = list(where.rglob("*.yml") if root else folder.parents[1].rglob("*.yml"))
    schema = ["vendor.github-workflows"] if system == "github" else ["vendor.gitlab-ci", "--data-transform=gitlab-ci"]
    checked = subprocess.run(
        [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema", *schema, *made],
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(made) == (1 if system == "github" else 2) and checked.returncode == 0, checked.stdout


def test_rights_of_a_workflow(folder: Path) -> None:
    """No right by default; only the job that comments may write, and it has no secret; none runs a fork's code with
    the repository's rights; secrets are for jobs of protected branches, in an environment."""
    text = written(folder, "github").read_text()
    content = yaml.safe_load(text)
    jobs: Mapping[str, Any] = content["jobs"]
    assert content["permissions"] == {} and "pull_request_target" not in text
    assert [name for name, job in jobs.items() if "write" in job["permissions"].values()] == ["comment"]
    with_secrets = [name for name, job in jobs.items() if "${{ secrets." in str(job)]
    assert with_secrets == ["plan", "run"] and all("environment" in jobs[name] for name in with_secrets)
    assert "github.ref_protected" in jobs["plan"]["if"] and jobs["run"]["needs"] == "plan"
    assert jobs["run"]["concurrency"] == {"group": "upgrader-prod", "cancel-in-progress": False}
    uses = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(len(each.partition("@")[2]) == 40 for each in uses), "actions are pinned by their commit"
    checkouts = [step for job in jobs.values() for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_rights_of_a_pipeline(folder: Path) -> None:
    """What has credentials runs on the protected default branch alone, in an environment, one job at a time."""
    jobs = yaml.safe_load(written(folder, "gitlab").read_text())
    live, run = jobs[".upgrader-prod-live"], jobs["upgrader-prod-run"]
    for rules in (live["rules"], run["rules"]):
        assert all('$CI_COMMIT_REF_PROTECTED == "true"' in rule["if"] for rule in rules)
    assert live["interruptible"] is False and run["resource_group"] == "upgrader-prod"
    assert run["rules"][0]["when"] == "manual" and run["allow_failure"] is False
    assert "environment" not in jobs["upgrader-prod-check"] and "_FILE" not in str(jobs["upgrader-prod-check"])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("job", "exit_code", "expected"), [("plan", 7, 0), ("plan", 3, 3), ("run", 0, 0), ("run", 4, 4)]
)
def test_secrets_of_a_job(
    folder: Path, tmp_path: Path, system: CiSystem, job: str, exit_code: int, expected: int
) -> None:
    """The kubeconfig is a file that only its owner reads, the key is in an agent alone; both are in no argument and in
    no variable that upgrader passes on, and gone in the end, however upgrader ended."""
    machine = runner(tmp_path, system, exit_code)
    plan = machine.workspace / "plan"
    if job == "run":
        plan.mkdir()
        (plan / "plan.json").write_text("{}")
    assert run(machine, written(folder, system), job) == expected
    home = machine.home
    assert (home / "seen").read_text().strip() == SECRET and (home / "mode").read_text() == oct(0o600)
    assert (home / "key").read_text().strip() == KEY and (home / "agent-ended").exists()
    for file in ("calls", "environment"):
        assert SECRET not in (home / file).read_text() and KEY not in (home / file).read_text()
    left = [path for path in (home / "work", home / "temp") for path in path.rglob("*") if path.is_file()]
    assert not [path for path in left if SECRET in path.read_text() or KEY in path.read_text()]
    if job == "plan":
        assert {path.name for path in plan.iterdir()} == {"plan.json", "plan.md"}
        assert stat.S_IMODE((plan / "plan.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_the_job_of_a_run_asks_for(folder: Path, tmp_path: Path, system: CiSystem) -> None:
    """It goes on with a run that an earlier job has left, by the plan that was approved; and no report that is kept for
    whoever may read the project names a host."""
    machine, file = runner(tmp_path, system, 0), written(folder, system)
    for path in ("plan/plan.json", "clusters/prod/runs/r1/journal.jsonl"):
        (machine.workspace / path).parent.mkdir(parents=True)
        (machine.workspace / path).write_text("{}")
    assert run(machine, file, "run") == 0
    if isinstance(machine, GitHubRunner):
        assert machine.run(machine.jobs(file)["run"], "Report", seconds=60).exit_code == 0
    first, *reports = (line.split() for line in (machine.home / "calls").read_text().splitlines())
    assert {"run", "--resume", "--plan", "--yes"} <= {*first}
    assert [words[2:5] for words in reports] == [["report", "r1", "--redacted"]] * 3


@pytest.mark.parametrize("system", SYSTEMS)
def test_nothing_to_do(folder: Path, tmp_path: Path, system: CiSystem) -> None:
    """A plan without a change ends well, and the run's job has nothing to begin."""
    machine, file = runner(tmp_path, system, 0), written(folder, system)
    assert run(machine, file, "plan") == 0
    if isinstance(machine, GitHubRunner):
        assert machine.outputs == {"changes": "false"}
        assert "changes == 'true'" in machine.jobs(file)["run"]["if"]
    else:
        (machine.home / "calls").unlink()
        assert run(machine, file, "run") == 0
        assert not (machine.home / "calls").exists()


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_there_stays(folder: Path, system: CiSystem) -> None:
    """A second time, nothing is written, and a file that was edited is as it was."""
    file = written(folder, system)
    file.write_text("mine")
    again = propose_jobs(folder, system)
    again.write()
    assert not again.files and file in again.kept and file.read_text() == "mine"


def test_pipeline_that_is_there(folder: Path) -> None:
    """A `.gitlab-ci.yml` of one's own isn't touched; what it has to include is told until it does."""
    main = folder.parents[1] / ".gitlab-ci.yml"
    main.write_text("stages: [test]\n")
    proposed = propose_jobs(folder, "gitlab")
    proposed.write()
    assert main.read_text() == "stages: [test]\n" and proposed.include == "/.gitlab/upgrader-prod.yml"
    main.write_text(f"include: [{{local: {proposed.include}}}]\n")
    assert propose_jobs(folder, "gitlab").include == ""


@pytest.mark.parametrize("name", ["${{ secrets.KEY }}", "a b", "-rf", "$(id)", "é"])
def test_odd_folder(folder: Path, name: str) -> None:
    """Names that a shell or an expression would take for something else are refused, and nothing is written."""
    with pytest.raises(UsageError, match="can't be in the path"):
        propose_jobs(folder.parent / name, "github")


def test_outside_of_git(tmp_path: Path) -> None:
    """Jobs are files of a repository."""
    with pytest.raises(UsageError, match="not in a git repository") as caught:
        propose_jobs(tmp_path / "prod", "github")
    assert "git init" in caught.value.remedy


def test_folder_that_is_linked(folder: Path, tmp_path: Path) -> None:
    """By another name, it is the same folder of the same repository."""
    link = tmp_path / "link"
    os.symlink(folder, link)
    assert propose_jobs(link, "github").name == "prod"
