"""The operator's policy decides how much a finding counts, and the report keeps what its check says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.unit.preflight.conftest import World
from upgrader.model.finding import Finding
from upgrader.preflight.all_checks import blocking, run_checks
from upgrader.preflight.context import PreflightContext

LOWERED = Finding("webhooks.no-backend", "error", "webhook x refuses pods")
RAISED = Finding("memory.tight", "warning", "node a has little memory")


def check(_: PreflightContext) -> Iterator[Finding]:
    """Finds both."""
    yield from (LOWERED, RAISED)


def test_severities_of_the_policy_replace_those_of_checks(world: World) -> None:
    """Lowered, an error doesn't block any more; raised, a warning does; each keeps what its check said."""
    context = replace(world.context(), severities={"webhooks.no-backend": "info", "memory.tight": "error"})
    lowered, raised = run_checks(context, [("x", check)])
    assert (lowered.severity, lowered.changed_from, lowered.blocking) == ("info", "error", False)
    assert (raised.severity, raised.changed_from, raised.blocking) == ("error", "warning", True)


def test_policy_that_changes_nothing_is_not_shown(world: World) -> None:
    """A severity that is the check's own anyway is no change."""
    context = replace(world.context(), severities={"webhooks.no-backend": "error"})
    found = run_checks(context, [("x", check)])
    assert found == (LOWERED, RAISED) and blocking(found)
