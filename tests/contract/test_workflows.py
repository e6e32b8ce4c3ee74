"""GitHub's workflows, of this repository and those that `init --ci github` writes, as actionlint judges them.

Their schema is checked by `make lint` and by the unit tests. It takes any text for a script or an expression.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from testkit.debian_programs import debian_program
from testkit.go_programs import go_program
from testkit.waiting import stretched
from upgrader.app.ci_jobs import propose_jobs

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / ".github/workflows/release.yml"
_ACTIONLINT = ("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12")


def found_in(*files: Path, runner: str = "") -> str:
    """What actionlint says, and ShellCheck of the scripts; empty: nothing. `runner`: a label of a user's own."""
    shellcheck = debian_program("shellcheck", "shellcheck")
    options = ["-no-color", "-oneline", f"-shellcheck={shellcheck}", "-pyflakes="]
    with NamedTemporaryFile(suffix=".yaml") as config:
        config.write(json.dumps({"self-hosted-runner": {"labels": [runner]}}).encode())
        config.flush()
        command = [str(go_program(*_ACTIONLINT)), *options, f"-config-file={config.name}", *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=stretched(120), check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def written(folder: Path) -> Path:
    """The workflow of a cluster's folder in a repository that has several."""
    repository = folder / "repository"
    (repository / ".git").mkdir(parents=True)
    cluster = repository / "clusters/prod"
    cluster.mkdir(parents=True)
    propose_jobs(cluster, "github").write()
    (made,) = repository.glob(".github/workflows/*.yml")
    return made


def test_workflows_of_this_repository() -> None:
    """Expressions name what there is, jobs need jobs that exist, and scripts are those of a careful shell user."""
    assert found_in(*sorted(RELEASE.parent.glob("*.yml"))) == ""


def test_workflow_of_a_cluster(tmp_path: Path) -> None:
    """The same of what `init --ci github` writes into a user's repository."""
    assert found_in(written(tmp_path), runner="upgrader") == ""


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("steps.push.outputs.guard", "steps.pushed.outputs.guard", 'property "pushed" is not defined'),
        ("needs: compare", "needs: compared", "compared"),
        ('"$GITHUB_REF_NAME" --draft', "$GITHUB_REF_NAME --draft", "SC2086"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, right: str, wrong: str, why: str) -> None:
    """An output of no step, a job that doesn't exist, a variable without quotes: the schema accepts each."""
    changed = tmp_path / RELEASE.name
    text = RELEASE.read_text()
    assert right in text
    changed.write_text(text.replace(right, wrong))
    assert why in found_in(changed)
