"""All checks together."""

from __future__ import annotations

from collections.abc import Iterator

from tests.unit.preflight.conftest import World
from upgrader.errors import ApiUnavailable
from upgrader.model.finding import Finding
from upgrader.preflight.all_checks import blocking, run_checks
from upgrader.preflight.context import PreflightContext


def test_nothing_speaks_against_a_healthy_cluster(world: World) -> None:
    """A cluster that is well has no findings at all."""
    assert run_checks(world.context()) == ()


def test_what_can_not_be_looked_at_is_unknown_and_inhibits(world: World) -> None:
    """With the API away every check that needs it says so, and the run is refused."""
    world.kube.unavailable = True
    findings = run_checks(world.context())
    assert {finding.id for finding in findings} == {
        "version.unknown",
        "access.unknown",
        "nodes.unknown",
        "workers.unknown",
        "machines.unknown",
        "ports.unknown",
        "os-support.unknown",
        "control-plane.unknown",
        "instances.unknown",
        "critical-pods.unknown",
        "checkpointer.unknown",
        "memory.unknown",
        "mounted-files.unknown",
        "certificates.unknown",
        "webhooks.unknown",
        "apis.unknown",
        "removed-apis.unread",
        "custom-resources.unknown",
        "namespaces.unknown",
        "disruption-budgets.unknown",
        "rollouts.unknown",
        "protectors.unknown",
        "networks.unknown",
        "components.unknown",
        "pod-addresses.unknown",
        "kubelet-access.unknown",
        "signing-requests.unknown",
        "tokens.unknown",
    }
    # Releases of others are a warning at most; what the run itself needs, the rest asks for.
    assert {finding.severity for finding in findings if finding.id != "removed-apis.unread"} == {"unknown"}
    assert "did not answer" in findings[0].diagnosis
    assert blocking(findings)


def test_a_check_that_breaks_off_keeps_what_it_found(world: World) -> None:
    """Findings from before the failure are kept, and the checks after it still run."""

    def breaks(context: PreflightContext) -> Iterator[Finding]:
        yield Finding("a.b", "warning", "found")
        raise ApiUnavailable("gone")

    def other(context: PreflightContext) -> Iterator[Finding]:
        yield Finding("c.d", "info", "found too")

    findings = run_checks(world.context(), [("a", breaks), ("c", other)])
    assert [finding.id for finding in findings] == ["a.b", "a.unknown", "c.d"]


def test_warnings_do_not_inhibit() -> None:
    """Only errors and unknowns forbid a run."""
    assert not blocking([Finding("a", "warning", ""), Finding("b", "info", "")])
    assert blocking([Finding("a", "warning", ""), Finding("b", "error", "")])


def test_which_check_is_made_is_said(world: World) -> None:
    """With its number, as all of them may take half a minute."""
    said: list[str] = []
    run_checks(world.context(), [("a", lambda _: iter(())), ("b", lambda _: iter(()))], said.append)
    assert said == ["checking… 1 of 2: a", "checking… 2 of 2: b"]
