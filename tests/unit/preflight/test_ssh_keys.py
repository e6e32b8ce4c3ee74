"""Private keys that ssh ignores, though upgrader itself logs in with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.preflight.conftest import World
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.ssh_keys import check_key_files
from upgrader.steps.playbook.plan import PlannedPlaybook

OPEN, KEPT = Path("/c/ssh/an open key"), Path("/home/ann/.ssh/id_ed25519")


def found(world: World, *hosts: Host, playbook: bool = True, agent: bool = False) -> tuple[Finding, ...]:
    """What is found of these machines, by a run with a playbook or without, beside an agent or not."""
    context = world.context()
    assert context.plan is not None
    steps = (PlannedPlaybook(Path("/c/reboot.yml")),) if playbook else ()
    context = replace(
        context,
        cluster=replace(context.cluster, controllers=hosts),
        plan=replace(context.plan, steps=steps),
        ssh_refuses=lambda key: key == OPEN,
        ssh_agent=agent,
    )
    return run_checks(context, [("ssh-keys", check_key_files)])


def test_open_key_is_an_error_of_a_run_with_a_playbook(world: World) -> None:
    """Ansible would fail in the middle of the run: one error for a file, with its hosts, and what to type."""
    hosts = tuple(Host(f"controller-{n}", f"10.0.0.{n}", key_file=OPEN) for n in (1, 2, 3, 4))
    (finding,) = found(world, *hosts)
    assert (finding.id, finding.severity) == ("ssh-keys.open", "error")
    assert finding.remedy == "chmod 600 '/c/ssh/an open key'"
    assert "controller-1, controller-2, controller-3 and 1 more" in finding.diagnosis
    (finding,) = found(world, *hosts, playbook=False)
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    ("host", "severities"),
    [
        (Host("a", "10.0.0.1", key_file=KEPT), []),
        (Host("a", "10.0.0.1"), []),
        (Host("a", "10.0.0.1", key_file=OPEN, more_keys=(KEPT,)), ["warning"]),
        (Host("a", "10.0.0.1", more_keys=(OPEN,)), ["error"]),
        (Host("a", "10.0.0.1", key_file=KEPT, jumps=(Host("b", "10.0.0.9", key_file=OPEN),)), ["error"]),
    ],
    ids=["kept", "the agent's", "another one is left", "of ssh's own files", "a bastion's"],
)
def test_other_keys(world: World, host: Host, severities: list[str]) -> None:
    """A machine that ssh can log in to with another key blocks no run; a bastion counts as the machine behind it."""
    assert [finding.severity for finding in found(world, host)] == severities


@pytest.mark.parametrize(
    ("host", "severity"),
    [
        (Host("a", "10.0.0.1", key_file=OPEN), "warning"),
        (Host("a", "10.0.0.1", key_file=OPEN, identities_only=True), "error"),
    ],
    ids=["ssh offers the agent's", "IdentitiesOnly"],
)
def test_keys_of_an_agent(world: World, host: Host, severity: str) -> None:
    """ssh ignores the file and logs in with the agent's key, as it does in CI jobs: that blocks no run."""
    assert [finding.severity for finding in found(world, host, agent=True)] == [severity]
