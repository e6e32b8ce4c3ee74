"""How the cluster is changed while Kubernetes' specs are at work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from bench.conformance.results import Result
from bench.conformance.ways import Change, during, oldest_kubelet
from testkit.command import Ended


class Specs:
    """Specs that are at work until so many commands have ended."""

    log = Path("during.log")

    def __init__(self, cluster: Cluster, commands: int) -> None:
        self._cluster, self._commands = cluster, commands

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.commands.append("specs ended")

    @property
    def ended(self) -> bool:
        """As ginkgo does."""
        return len(self._cluster.commands) >= self._commands

    def results(self) -> tuple[Result, ...]:
        """None: what counts here is what was done to the cluster."""
        return ()


class Cluster:
    """A cluster whose `upgrader` commands end with these exit codes, and then with 0."""

    def __init__(self, *codes: int) -> None:
        self.commands: list[str] = []
        self._codes = list(codes)
        self.kube: Any = self

    def list(self, *_: Any, **__: Any) -> Sequence[Any]:
        """Namespaces of specs: there is one."""
        return ({"metadata": {"name": "pods-1"}},)

    def upgrader(self, *words: str, timeout_seconds: float) -> Ended:
        """Run it."""
        self.commands.append(" ".join(words))
        return Ended(words, self._codes.pop(0) if self._codes else 0, "", "refused" if self._codes else "", 1.0)


def changes(cluster: Cluster, commands: int) -> tuple[Change, ...]:
    """What `during` did to the cluster, while the specs lasted for so many commands."""
    suite: Any = type("Suite", (), {})()
    suite.programs = type("Programs", (), {"e2e": Path("e2e.test")})()
    suite.start = lambda *_: Specs(cluster, commands)
    of_a_lab: Any = cluster
    return during(of_a_lab, suite, ["a spec"], "v1.37.1").changes


RUN, ROLLBACK = "run --to v1.37.1 --yes", "rollback --yes"


def test_runs_and_rollbacks_take_turns_until_the_specs_have_ended() -> None:
    """A spec that begins late meets a run as well; what has begun is finished before results are read."""
    cluster = Cluster()
    assert [change.what for change in changes(cluster, 3)] == ["run", "rollback", "run"]
    assert cluster.commands == [RUN, ROLLBACK, RUN, "specs ended"]


@pytest.mark.parametrize("code", [1, 4, 5])
def test_a_run_that_failed_is_the_last(code: int) -> None:
    """Nothing is begun on top of it, and its exit code is kept."""
    cluster = Cluster(0, code)
    assert [(change.what, change.exit_code) for change in changes(cluster, 9)] == [("run", 0), ("rollback", code)]
    assert cluster.commands == [RUN, ROLLBACK, "specs ended"]


def test_a_refused_run_is_tried_again_and_counted() -> None:
    """A spec that breaks a webhook for a moment makes a check refuse the run: rightly, and only for that moment."""
    (first, _) = changes(Cluster(3, 3, 0), 4)
    assert (first.what, first.refused, first.exit_code) == ("run", 2, 0)


def test_a_run_that_is_always_refused_ends_so() -> None:
    """What isn't a spec's doing stays: then the command says so instead of trying for ever."""
    (only,) = changes(Cluster(3, 3, 3, 3, 3, 3), 99)
    assert (only.exit_code, only.refused) == (3, 4)


def test_specs_that_end_before_anything_was_disturbed_prove_nothing() -> None:
    """A suite that doesn't start is an error, not a run without failures."""
    with pytest.raises(RuntimeError, match="ended before anything was disturbed"):
        changes(Cluster(), 0)


def test_versions_of_kubelets_are_compared_as_numbers() -> None:
    """v1.9 is older than v1.10."""
    cluster: Any = type("Nodes", (), {})()
    versions = ("v1.10.0", "v1.9.3")
    nodes = [{"status": {"nodeInfo": {"kubeletVersion": version}}} for version in versions]
    cluster.kube = type("Kube", (), {"list": lambda *_: nodes})()
    assert oldest_kubelet(cluster) == "v1.9.3"
