"""Updates that a controller installs by itself, in the middle of a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.preflight.unattended_updates import check_unattended_updates

_APT, _DNF = "apt-daily-upgrade.timer", "dnf-automatic.timer"


def _updates(timer: str, *packages: str, reboots: bool = False) -> dict[str, Any]:
    return {"timer": timer, "packages": packages, "reboots": reboots}


def test_nothing_is_said_of_a_host_that_leaves_them_alone(world: World) -> None:
    """Neither where nothing is installed by itself, nor where the packages that matter are held."""
    for updates in (_updates(""), _updates(_APT)):
        world.controller(updates=updates)
        assert world.find(check_unattended_updates) == {}


@pytest.mark.parametrize(
    ("updates", "severity", "title", "remedies"),
    [
        (
            _updates(_APT, "containerd", "kubelet", "systemd"),
            "warning",
            "may upgrade containerd, kubelet, systemd at any time",
            ["apt-mark hold containerd kubelet;", f"systemctl stop {_APT}"],
        ),
        (_updates(_APT, "systemd"), "info", "may upgrade systemd at any time", [f"systemctl stop {_APT}"]),
        (
            _updates(_APT, reboots=True),
            "warning",
            f"{_APT} may reboot the machine",
            ['Automatic-Reboot "false"; in /etc/apt/apt.conf.d'],
        ),
        (
            _updates(_DNF, "cri-o", reboots=True),
            "warning",
            "may upgrade cri-o and may reboot the machine at any time",
            ["dnf versionlock add cri-o;", "`reboot = never` in /etc/dnf/automatic.conf", f"stop {_DNF}"],
        ),
    ],
    ids=["apt", "systemd alone", "reboots", "dnf"],
)
def test_what_a_host_may_do_by_itself_is_named_with_the_way_to_stop_it(
    world: World, updates: dict[str, Any], severity: str, title: str, remedies: list[str]
) -> None:
    """A warning, as nothing is wrong yet; systemd's updates alone, which every Debian has, are only mentioned, and no
    one is told to hold them.
    """
    world.controller(updates=updates)
    found = world.find(check_unattended_updates)["machines.unattended-updates"]
    assert found.severity == severity and found.title.startswith("controller-1: ") and title in found.title
    assert all(each in found.remedy for each in remedies) and "hold systemd" not in found.remedy


def test_a_host_that_can_not_say_is_unknown(world: World) -> None:
    """It doesn't block: most hosts without a package manager have no such updates."""
    world.controller(updates={"unknown": "apt-config timed out after 4 s"})
    found = world.find(check_unattended_updates)["machines.updates-unknown"]
    assert (found.severity, found.diagnosis) == ("info", "apt-config timed out after 4 s")
