"""`upgrader init` as a new user sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.kube import FakeKube
from tests.unit.app.test_initialization import KEY, Machines, kube
from upgrader.app import initialization
from upgrader.cli.main import cli
from upgrader.errors import ApiUnavailable
from upgrader.ports import HostKeys, Kube

__all__ = ["kube"]

KUBECONFIG = "contexts: [{name: prod, context: {cluster: prod, user: me}}]\ncurrent-context: prod\n"


@pytest.fixture
def home(tmp_path: Path, kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a kubeconfig that leads to the cluster of the fakes."""

    @contextmanager
    def fakes(kubeconfig: Path, context: str) -> Iterator[tuple[Kube, HostKeys]]:
        assert (kubeconfig, context) == (tmp_path / ".kube" / "config", "prod")
        yield kube, Machines()

    monkeypatch.setattr(initialization, "open_stranger", fakes)
    for name in ("KUBECONFIG", "UPGRADER_KUBECONFIG", "UPGRADER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(KUBECONFIG)
    return tmp_path


def init(home: Path, answer: str, *arguments: str) -> Result:
    """The command, for a folder that isn't there yet."""
    return CliRunner().invoke(cli, ["-C", str(home / "prod"), "init", *arguments], input=answer)


def test_first_hour(home: Path) -> None:
    """It shows what it has found, asks for the fingerprints, names each file, and says what comes next."""
    ended = init(home, "y\ny\n")
    assert ended.exit_code == 0, ended.output
    assert KEY.fingerprint in ended.output and "kubeadm's static pods" in ended.output
    for name in ("upgrader.yaml", "hosts.yml", ".gitignore", "ssh/known_hosts", "kubeconfig"):
        assert (home / "prod" / name).exists() and f"will write: {home / 'prod' / name}" in ended.output
    upgrader = f"upgrader -C {home / 'prod'}"
    assert f"Next: {upgrader} images push REGISTRY, then {upgrader} adopt" in ended.output


def test_api_that_does_not_answer(home: Path, kube: FakeKube) -> None:
    """There is no folder yet that `recover` could work on: the way to the API is what can be checked."""
    kube.unavailable = True
    ended = init(home, "")
    assert isinstance(ended.exception, ApiUnavailable) and not (home / "prod").exists()
    remedy = ended.exception.remedy
    assert f"kubectl --kubeconfig {home / '.kube' / 'config'} --context prod get nodes" in remedy
    assert "recover" not in remedy


def test_declined(home: Path) -> None:
    """No is no: not even the folder is made."""
    ended = init(home, "y\nn\n")
    assert ended.exit_code == 1 and not (home / "prod").exists()


@pytest.mark.parametrize(("answer", "arguments"), [("n\ny\n", ()), ("", ("--yes",))])
def test_fingerprints_that_nobody_confirmed(home: Path, answer: str, arguments: tuple[str, ...]) -> None:
    """Without a person's yes, host keys are not written, and it says so: `--yes` is no comparison."""
    ended = init(home, answer, *arguments)
    assert ended.exit_code == 0, ended.output
    assert not (home / "prod" / "ssh").exists() and "host keys are not written" in ended.output


def test_again(home: Path) -> None:
    """A second time, all is there, and stays."""
    init(home, "y\ny\n")
    before = {path: path.read_bytes() for path in (home / "prod").rglob("*") if path.is_file()}
    ended = init(home, "y\n")
    assert ended.exit_code == 0 and "will write" not in ended.output
    assert f"kept: {home / 'prod' / 'upgrader.yaml'}" in ended.output
    assert before == {path: path.read_bytes() for path in (home / "prod").rglob("*") if path.is_file()}


def test_without_any_kubeconfig(home: Path) -> None:
    """It says where it has looked, and what to do."""
    (home / ".kube" / "config").unlink()
    ended = init(home, "")
    assert "there is no kubeconfig" in str(ended.exception) and ".kube/config" in str(ended.exception)


def test_jobs_of_a_new_folder(home: Path) -> None:
    """With --ci: the cluster's folder and its jobs, and what a person has to set up for them."""
    (home / ".git").mkdir()
    ended = init(home, "y\ny\ny\n", "--ci", "github")
    assert ended.exit_code == 0, ended.output
    assert (home / "prod" / "upgrader.yaml").exists() and (home / ".github/workflows/upgrader-prod.yml").exists()
    assert "the environments prod-plan and prod" in ended.output


def test_jobs_of_a_folder_that_is_there(home: Path, kube: FakeKube) -> None:
    """No cluster is asked for them, and nothing else is written; what an own pipeline has to include is said."""
    (home / ".git").mkdir()
    (home / "prod").mkdir()
    (home / "prod" / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    (home / ".gitlab-ci.yml").write_text("stages: [test]\n")
    kube.raw_answers.clear()
    ended = init(home, "y\n", "--ci", "gitlab")
    assert ended.exit_code == 0, ended.output
    assert [path.name for path in (home / "prod").iterdir()] == ["upgrader.yaml"]
    assert "- local: /.gitlab/upgrader-prod.yml" in ended.output
