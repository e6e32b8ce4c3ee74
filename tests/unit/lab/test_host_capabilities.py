"""What a machine must have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from upgrader.errors import LabError
from upgrader.lab.host_capabilities import HostCapabilities, require
from upgrader.lab.spec import LabSpec

_GIB = 1024**3
_GOOD = HostCapabilities(
    linux=True,
    root=True,
    may_lower_oom_score=True,
    bridge_netfilter=True,
    memory_available=8 * _GIB,
    disk_free=50 * _GIB,
    missing_packages=(),
)


def test_a_good_machine_passes() -> None:
    """Root on Linux with packages, memory and disk needs nothing more."""
    require(_GOOD, LabSpec("x"), built=False)


@pytest.mark.parametrize(
    ("machine", "says", "remedy"),
    [
        (replace(_GOOD, linux=False), "Linux", "VM"),
        (replace(_GOOD, root=False), "root", "sudo"),
        (replace(_GOOD, missing_packages=("mmdebstrap",)), "mmdebstrap", "apt-get install mmdebstrap"),
        (replace(_GOOD, disk_free=_GIB), "disk", "XDG_CACHE_HOME"),
        (replace(_GOOD, memory_available=_GIB), "memory", "fewer nodes"),
    ],
)
def test_what_is_missing_is_one_clear_line_with_a_remedy(machine: HostCapabilities, says: str, remedy: str) -> None:
    """Each lack is told in one line that names it, and says what to do."""
    with pytest.raises(LabError) as caught:
        require(machine, LabSpec("x"), built=True)
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert remedy in caught.value.remedy


def test_more_nodes_need_more_memory() -> None:
    """A machine that has room for one controller refuses seven."""
    machine = replace(_GOOD, memory_available=3 * _GIB)
    require(machine, LabSpec("x"), built=True)
    with pytest.raises(LabError):
        require(machine, LabSpec("x", controllers=7), built=True)


def test_nothing_built_yet_needs_more_disk() -> None:
    """The Go builds need room that a finished cache does not."""
    machine = replace(_GOOD, disk_free=5 * _GIB)
    require(machine, LabSpec("x"), built=True)
    with pytest.raises(LabError):
        require(machine, LabSpec("x"), built=False)


def test_flannel_needs_br_netfilter() -> None:
    """Without it flanneld ends at once: said before anything is made, and only of labs that have flannel."""
    without = replace(_GOOD, bridge_netfilter=False)
    require(without, LabSpec("x"), built=False)
    with pytest.raises(LabError) as caught:
        require(without, LabSpec("x", flannel=True), built=False)
    assert "br_netfilter" in caught.value.message
    assert "modprobe" in caught.value.remedy
