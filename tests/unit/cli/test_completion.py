"""Completion in a shell, and global options on both sides of a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit import example_runs as runs
from testkit.example_runs import RUN, journal_of
from upgrader.cli.main import cli
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

LATER = "20260102T000000-v1.37.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder with two runs."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    journal_of(runs.GOOD, tmp_path)
    journal_of(runs.ROLLED_BACK, tmp_path, LATER)
    return tmp_path


def completed(*words: str, folder: Path | None = None) -> list[str]:
    """What the program answers bash for the last of these words."""
    line = ["upgrader", *words]
    settings = {"_UPGRADER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from upgrader.cli.main import main; main()"],
        env={**os.environ, **settings, "PYTHONPATH": str(Path(__file__).parents[3])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_and_runs(folder: Path) -> None:
    """Commands by their beginning; runs of the current folder and of -C's, newest first."""
    assert completed("repo") == ["report"]
    assert completed("report", "2026", folder=folder) == [LATER, RUN]
    assert completed("-C", str(folder), "resume", "--run", "20260102") == [LATER]
    assert completed("report", "-C", str(folder), "2026") == [LATER, RUN]


def test_steps_of_the_run(folder: Path) -> None:
    """Steps that were begun, of the run that is named, or of the newest upgrade."""
    assert completed("rollback", "--to", "ku", folder=folder) == ["kube-apiserver"]
    assert completed("rollback", "--run", RUN, "--to", "ku", folder=folder) == [
        "kube-apiserver",
        "kubernetes",
        "kubeadm-config",
    ]


def test_versions_to_upgrade_to() -> None:
    """`--to` offers the newest patch of each minor, newest first, wherever it is typed."""
    offered = completed("run", "--to", "v1.3")
    assert len(offered) > 2 and offered == sorted(offered, key=KubernetesVersion.parse, reverse=True)
    assert completed("plan", "--to", offered[0]) == [offered[0]]


def test_cluster_folders(folder: Path) -> None:
    """`-C` offers folders of clusters, here and one folder further down, before and after the command."""
    for name in ("clusters/north", "clusters/south", "alone", "charts"):
        (folder / name).mkdir(parents=True)
        if name != "charts":
            (folder / name / "upgrader.yaml").write_text("")
    assert completed("-C", "", folder=folder) == ["alone", "clusters/north", "clusters/south"]
    assert completed("plan", "-C", "clusters/s", folder=folder) == ["clusters/south"]
    assert completed("-C", "cha", folder=folder) == ["cha"], "the shell completes folders itself"


def test_steps_that_may_wait_for_a_person(folder: Path) -> None:
    """`approve` offers those that the newest run has not begun."""
    journal_of(runs.GOOD[:2], folder, "20260103T000000-v1.37.1")
    assert completed("approve", "kube", folder=folder) == ["kube-apiserver", "kubernetes", "kubeadm-config"]


def test_names_that_a_shell_would_obey_are_not_offered(folder: Path) -> None:
    """Shells put them into the line as they are, and journals may come from the cluster, or from another team."""
    path = folder / "runs" / LATER / "journal.jsonl"
    path.write_text(path.read_text().replace('"step":"kube-apiserver"', '"step":"kube-apiserver;reboot"'))
    (folder / "runs" / "20260104T000000-$(reboot)").mkdir()
    assert completed("rollback", "--to", "kube-a", folder=folder) == []
    assert completed("report", "2026", folder=folder) == [LATER, RUN]


def test_what_cannot_be_read_is_not_offered(folder: Path, tmp_path: Path) -> None:
    """A damaged journal and a folder without runs are no error on a command line that is being typed."""
    (folder / "runs" / LATER / "journal.jsonl").write_text("garbage\n")
    assert completed("rollback", "--run", LATER, "--to", "k", folder=folder) == []
    (tmp_path / "empty").mkdir()
    assert completed("report", "2", folder=tmp_path / "empty") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_each_shell(shell: str) -> None:
    """The script names the program and the variable that asks it."""
    output = CliRunner().invoke(cli, ["completion", shell], catch_exceptions=False).stdout
    assert "upgrader" in output and "_UPGRADER_COMPLETE" in output


def test_folder_before_and_after_the_command(folder: Path) -> None:
    """Both mean the same, also for a command below another one."""
    before = CliRunner().invoke(cli, ["-C", str(folder), "report", "-o", "junit"], catch_exceptions=False)
    after = CliRunner().invoke(cli, ["report", "-C", str(folder), "-o", "junit"], catch_exceptions=False)
    assert before.stdout == after.stdout != ""
    with pytest.raises(UsageError, match="elsewhere"):
        CliRunner().invoke(cli, ["certs", "show", "-C", str(folder / "elsewhere")], catch_exceptions=False)


def answered(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_form_before_and_after_the_command(folder: Path) -> None:
    """`-o` means the same on both sides, below a group and for `--json` too; behind the command it counts."""
    at = ("-C", str(folder))
    assert answered(*at, "-o", "junit", "report").stdout == answered(*at, "report", "-o", "junit").stdout != ""
    assert answered(*at, "-o", "json", "report", "-o", "junit").stdout.startswith("<?xml")
    one, other = (answered(*words) for words in (("-o", "json", "status", *at), ("status", "--json", *at)))
    assert json.loads(one.stdout) == json.loads(other.stdout)
    assert "Invalid value for '-o' / '--output': 'x'" in answered("-o", "x", "certs", "renew").output


@pytest.mark.parametrize("words", [("completion", "bash"), ("doctor",), ("bundle", "create", "-o", "file")])
def test_form_of_a_command_that_has_one(words: tuple[str, ...]) -> None:
    """It is refused instead of being forgotten; `-o FILE` of `bundle create` is no form."""
    with pytest.raises(UsageError, match=" has only one output format"):
        answered("-o", "json", *words)


@pytest.mark.parametrize(
    ("option", "variable"), [("--context", "UPGRADER_CONTEXT"), ("--kubeconfig", "UPGRADER_KUBECONFIG")]
)
def test_kubeconfig_and_context_after_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, option: str, variable: str
) -> None:
    """They reach the use case as they do before the command, for this command alone; two different ones are refused."""
    seen: list[str | None] = []

    def look(_: Path) -> None:
        seen.append(os.environ.get(variable))
        raise ZeroDivisionError

    monkeypatch.setattr("upgrader.app.status.known_runs", look)
    monkeypatch.delenv(variable, raising=False)
    given = str(folder / "prod")
    for words in ((option, given, "status"), ("status", option, given), (option, given, "status", option, given)):
        assert isinstance(CliRunner().invoke(cli, words).exception, ZeroDivisionError)
    assert seen == [given] * 3 and variable not in os.environ
    with pytest.raises(UsageError, match=f"{option} is given twice"):
        answered(option, "/a", "status", option, "/b")


def test_command_that_is_misspelt() -> None:
    """The one that was meant is named."""
    assert "Did you mean" in answered("plna").output and "'plan'" in answered("plna").output


def test_two_folders_are_refused(folder: Path) -> None:
    """Nobody has to guess which cluster would be changed; the same folder twice is no contradiction."""
    with pytest.raises(UsageError, match="-C is given twice"):
        CliRunner().invoke(cli, ["-C", "/other", "report", "-C", str(folder)], catch_exceptions=False)
    both = CliRunner().invoke(cli, ["-C", str(folder), "report", "-C", str(folder)], catch_exceptions=False)
    assert both.exit_code == 0
