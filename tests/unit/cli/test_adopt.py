"""`upgrader adopt`: what it says before it asks, and where nothing is left to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.unit.adopt.kubeadm_cluster import FLAGS, facts, static_pod
from upgrader.adopt.facts import KubeadmFacts
from upgrader.app.adoption import ADOPTED, NOT_ADOPTED, is_adopted
from upgrader.cli.main import cli
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.steps.verify import VerifyStep


def upgrader(folder: Path, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli, ["-C", str(folder), "adopt", *arguments], input=answer)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An adoption that would write values over what is there, and whose steps were all done before."""
    values = tmp_path / "values"
    values.mkdir()
    (values / "kubernetes.yaml").write_text("a: 1\n")
    proposed = SimpleNamespace(needless=ADOPTED, pipeline=Pipeline(()), findings=())

    @contextmanager
    def propose(**_: object) -> Iterator[Any]:
        yield proposed

    found = SimpleNamespace(
        facts=facts(),
        version=KubernetesVersion.parse("v1.36.3"),
        restarts=(),
        derived=SimpleNamespace(changes=(), values={"kube-apiserver": {}}),
        changed_files=lambda: {values / "kubernetes.yaml": "a: 2\n", values / "kube-apiserver.yaml": "b: 1\n"},
        propose=propose,
        proposed=proposed,
    )

    @contextmanager
    def adoption(*_: object) -> Iterator[Any]:
        yield found

    monkeypatch.setattr("upgrader.app.adoption.adoption", adoption)
    return found


def test_what_would_hinder_an_undo_is_said_before_the_question(found: Any, tmp_path: Path) -> None:
    """A controller without ::1 can be given it before the adoption."""
    found.facts = replace(found.facts, without_ipv6_loopback=("controller-1",))
    found.derived.values["kube-apiserver"]["exposeOnAllInterfaces"] = True
    ended = upgrader(tmp_path, answer="n\n")
    assert "lo.disable_ipv6=0" in ended.output.partition("Write these files?")[0]


def test_what_is_replaced_is_announced(found: Any, tmp_path: Path) -> None:
    """A file that is there is named with the one in which it is kept; after a no, nothing was written."""
    ended = upgrader(tmp_path, answer="n\n")
    assert "values/kubernetes.yaml; the current file is kept as kubernetes.yaml.before-adopt" in ended.stderr
    assert "Will write values/kube-apiserver.yaml\n" in ended.stderr
    assert (tmp_path / "values/kubernetes.yaml").read_text() == "a: 1\n"


def test_a_component_that_is_behind_is_named(found: Any, tmp_path: Path) -> None:
    """Before the question, as adoption brings it to kube-apiserver's version."""
    found.version = KubernetesVersion.parse("v1.36.4")
    ended = upgrader(tmp_path, answer="n\n")
    assert "kube-scheduler runs v1.36.3 now, and will get kube-apiserver's version, v1.36.4" in " ".join(
        ended.stderr.split()
    )


def test_monitoring_that_must_change_is_named(found: Any, tmp_path: Path) -> None:
    """Before the question: after it, nothing answers at the controller's address any more."""
    found.facts = facts({name: static_pod(name, "--bind-address=0.0.0.0") for name in FLAGS})
    told = " ".join(upgrader(tmp_path, answer="n\n").stderr.split())
    assert "kube-controller-manager and kube-scheduler will listen on ports 10257 and 10259 at the pods' own" in told


def test_nobody_to_ask(found: Any, tmp_path: Path) -> None:
    """In a job without --yes, the error is a wrong command line that names it, not an interrupted run."""
    ended = upgrader(tmp_path)
    error = ended.exception
    assert isinstance(error, UsageError) and error.exit_code == 2
    assert ended.stderr.endswith("[y/N]: \n")  # the error is a line of its own
    assert "standard input is closed" in error.message and "--yes" in error.remedy


def test_adopted_already(found: Any, tmp_path: Path) -> None:
    """No list of steps, and no question: there is nothing to do."""
    ended = upgrader(tmp_path, "--yes")
    assert ended.exit_code == 0 and ADOPTED in ended.stderr and "Start?" not in ended.stderr


def test_nothing_to_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--undo` of what was never adopted says so."""

    @contextmanager
    def propose(*_: object, **__: object) -> Iterator[Any]:
        yield SimpleNamespace(needless=NOT_ADOPTED)

    monkeypatch.setattr("upgrader.app.adoption.propose_undo", propose)
    ended = upgrader(tmp_path, "--undo")
    assert ended.exit_code == 0 and "Nothing to undo" in ended.stderr and "Start?" not in ended.stderr


def charts(*changes: bool) -> Pipeline:
    """Releases, of which some would change."""
    return Pipeline(
        tuple(PipelineStep(VerifyStep(f"r{number}"), (), (), changes=each) for number, each in enumerate(changes))
    )


@pytest.mark.parametrize(
    ("read", "releases", "adopted"),
    [
        (facts({}), charts(False, False), True),
        (facts({}, {}), charts(False), True),
        (facts({}), charts(False, True), False),
        (facts(), charts(False, False), False),
        (facts({}, {"kube-scheduler": static_pod("kube-scheduler")}), charts(False), False),
    ],
    ids=["one", "two", "a release is to change", "kubeadm's", "half of it"],
)
def test_what_counts_as_adopted(read: KubeadmFacts, releases: Pipeline, adopted: bool) -> None:
    """Only where no controller has a static pod of kubeadm's, and no release would change."""
    assert is_adopted(read, releases) is adopted
