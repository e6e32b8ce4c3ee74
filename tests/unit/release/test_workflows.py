"""The workflows of releases and tests: what their schemas don't say."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from upgrader import __version__

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / ".github/workflows/release.yml").read_text()
TESTING = (ROOT / ".github/workflows/test.yml").read_text()
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step, with its job's name."""
    for name, job in JOBS.items():
        for step in job["steps"]:
            yield name, step


@pytest.mark.parametrize("text", [TEXT, TESTING], ids=["release", "test"])
def test_actions_are_pinned_by_commit(text: str) -> None:
    """A tag can be moved to other code, a commit can't; the comment says to which tag it belonged."""
    used = re.findall(r"uses: (.*)", text)
    pinned = r"[\w-]+/[\w-]+(/[\w-]+)?@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert used and all(re.fullmatch(pinned, each) for each in used), used


def test_a_strangers_change_is_tested_without_rights() -> None:
    """It runs as root in a privileged container: it gets no secret, no token that can write, and ends by itself. The
    event is the one for which GitHub gives strangers' changes no secrets."""
    workflow: dict[Any, Any] = yaml.safe_load(TESTING)
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {} and job["permissions"] == {"contents": "read"}
    assert "secrets." not in TESTING and "pull_request_target" not in TESTING
    assert "pull_request" in workflow[True], "YAML reads `on` as a truth value"
    (checkout,) = (step for step in job["steps"] if "checkout" in step.get("uses", ""))
    assert checkout["with"]["persist-credentials"] is False
    assert job["timeout-minutes"] <= 120


def test_results_are_kept_whatever_the_outcome() -> None:
    """On both systems, from the folder to which scripts/test writes, as are the builds that the next run needs."""
    (job,) = yaml.safe_load(TESTING)["jobs"].values()
    kept = [step for step in job["steps"] if str(step.get("if", "")).startswith("always()")]
    assert [step["with"]["path"] for step in kept] == [".cache/upgrader", "build/test-results"]
    gitlab = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())["test"]
    assert gitlab["artifacts"]["when"] == "always" == gitlab["cache"]["when"]
    assert gitlab["artifacts"]["paths"] == ["build/test-results/"]
    assert "build/test-results/" in (ROOT / "scripts/test").read_text()


def test_only_a_tag_makes_a_release_on_gitlab() -> None:
    """Every job but the test is of a tag alone, and the test is of none."""
    jobs = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
    stages = {name: job for name, job in jobs.items() if isinstance(job, dict) and "stage" in job}
    assert jobs[".release"]["rules"] == [{"if": "$CI_COMMIT_TAG =~ /^v/"}]
    assert {name for name, job in stages.items() if job.get("extends") != ".release"} == {"test"}
    assert stages["test"]["rules"] == [{"if": "$CI_COMMIT_TAG == null"}]


def test_jobs_have_only_the_rights_that_they_need() -> None:
    """What is built can't write anything, what has the signing identity can't write the repository, and no job inherits
    the repository's defaults."""
    assert yaml.safe_load(TEXT)["permissions"] == {}
    rights = {name: job["permissions"] for name, job in JOBS.items()}
    assert rights["build"] == {"contents": "read"} and rights["compare"] == {}
    assert [name for name, each in rights.items() if "id-token" in each] == ["publish"]
    assert [name for name, each in rights.items() if each.get("contents") == "write"] == ["page"]


def test_no_expression_is_put_into_a_script() -> None:
    """GitHub writes expressions into the text of a script: the name of a tag would be run as one."""
    assert [step for _, step in steps() if "${{" in step.get("run", "")] == []


def test_nothing_is_pushed_that_was_not_built_twice() -> None:
    """Two builds in folders of different names, compared before what can push begins."""
    assert len(set(JOBS["build"]["strategy"]["matrix"]["folder"])) == 2
    assert (JOBS["compare"]["needs"], JOBS["publish"]["needs"]) == ("build", "compare")


@pytest.mark.parametrize(("changed", "exit_code"), [(False, 0), (True, 1)])
def test_builds_that_differ_are_refused(tmp_path: Path, changed: bool, exit_code: int) -> None:
    """The comparison itself, as it is in the workflow."""
    (script,) = (step["run"] for name, step in steps() if name == "compare" and "run" in step)
    for folder in ("one", "another"):
        (tmp_path / f"dist-{folder}").mkdir()
        (tmp_path / f"dist-{folder}/wheel").write_text(folder if changed else "same")
        sums = subprocess.run(["sha256sum", "wheel"], cwd=tmp_path / f"dist-{folder}", capture_output=True, check=True)
        (tmp_path / f"dist-{folder}/SHA256SUMS").write_bytes(sums.stdout)
    ran = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode == exit_code


@pytest.mark.parametrize(("tag", "exit_code"), [(f"v{__version__}", 0), ("v9.9.9", 1)])
def test_tag_has_to_be_the_version(tmp_path: Path, tag: str, exit_code: int) -> None:
    """A release can't be called otherwise than its wheel, charts and images are."""
    (script,) = (step["run"] for _, step in steps() if step.get("name") == "The tag is the version")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(ROOT / ".venv/bin/python")
    (tmp_path / "upgrader").mkdir()
    (tmp_path / "upgrader/__init__.py").write_text(f'__version__ = "{__version__}"\n')
    environment = {"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=False)
    assert ran.returncode == exit_code


def test_page_has_all_that_people_install(tmp_path: Path) -> None:
    """Whatever docs/install.md lists is on the release's page, by the workflow's own script: as a file, or in the
    archive of wheels."""
    listed = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/install.md").read_text(), re.MULTILINE)
    for name in (each.replace("*", "guard-1.amd64").replace("VERSION", "1") for each in listed):
        file = tmp_path / "dist" / (f"{name}file.tgz" if name.endswith("/") else name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "gh").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >told\n')
    (tmp_path / "gh").chmod(0o755)
    (script,) = (step["run"] for name, step in steps() if name == "page" and "run" in step)
    environment = {"GITHUB_REF_NAME": "v1", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)
    told = (tmp_path / "told").read_text().split()
    with tarfile.open(tmp_path / "wheels.tar") as archive:
        packed = archive.getnames()
    files = [path.relative_to(tmp_path / "dist") for path in (tmp_path / "dist").rglob("*") if path.is_file()]
    assert len(files) == len(listed) and "wheels.tar" in told
    assert [file for file in files if f"dist/{file}" not in told and str(file) not in packed] == []


def test_forges_sign_with_the_same_cosign() -> None:
    """GitHub's is installed by an action, GitLab's is built."""
    (installed,) = (step["with"]["cosign-release"] for _, step in steps() if "cosign-installer" in step.get("uses", ""))
    assert f"cosign/v3/cmd/cosign@{installed}\n" in (ROOT / ".gitlab-ci.yml").read_text()


def test_what_is_not_run_is_named() -> None:
    """Whatever action a job uses is in the decision's list of what no test runs."""
    page = (ROOT / "docs/adr/0037-a-release-is-built-twice-and-named-before-it-is-pushed.md").read_text()
    listed = page.partition("Not run, as")[2]
    used = {step["uses"].partition("@")[0] for _, step in steps() if "uses" in step}
    assert used and [action for action in used if f"`{action}`" not in listed] == []
