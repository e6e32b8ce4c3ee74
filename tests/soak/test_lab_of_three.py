"""A lab of three controllers, their load balancer and two workers. Others: test_lab_of_workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.lab_commands import lab_command, made_lab
from testkit.waiting import until
from upgrader.lab.lifecycle import Lab


@pytest.fixture
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """It, by the command line."""
    with made_lab(tmp_path_factory.mktemp("large"), "large", "--controllers", "3", "--workers", "2") as lab:
        yield lab


def test_the_api_stays_when_a_controller_loses_power_and_it_comes_back_with_its_state(large: Lab) -> None:
    """The load balancer skips a dead controller; after power on the node has its files and is Ready."""
    large.run("controller-1", "echo kept > /root/kept")
    home = large.placement.folder.parents[1]
    crashed = lab_command(home, "crash", "controller-1", "--name", large.placement.spec.name)
    assert crashed.returncode == 0, crashed.stderr

    def seen(node: str, power: bool, state: str) -> bool:
        line = next(line for line in large.status() if line.node.name == node)
        return line.running is power and line.kubernetes == state

    until(
        "the API to tell that controller-1 is away", lambda: seen("controller-1", False, "Unknown"), timeout_seconds=90
    )
    assert seen("controller-2", True, "Ready")
    booted = lab_command(home, "boot", "controller-1", "--name", large.placement.spec.name)
    assert booted.returncode == 0, booted.stderr
    assert large.run("controller-1", "cat /root/kept").strip() == "kept"
    until("controller-1 to be Ready", lambda: seen("controller-1", True, "Ready"), timeout_seconds=90)
    large.wait_until_ready()
