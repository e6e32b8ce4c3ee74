"""Real API servers of two minors, one after the other on one etcd: what the emulation promises, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from testkit.api_servers import ApiServers, api_servers
from testkit.every_kind import digests, stored_kinds, write_every_kind
from testkit.fakes.helm import FakeHelm
from testkit.lab_cluster import OLD, TARGET
from tests.contract.checking import checked
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.observe_cluster import observe
from upgrader.gates.continuity.served_groups import read_groups
from upgrader.gates.continuity.server_metrics import parse
from upgrader.model.emulation import ServerVersion
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.version_skew import check_version

EMULATE = "--emulated-version=1.36"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServers]:
    """With an empty etcd."""
    with api_servers(tmp_path_factory.mktemp("emulation")) as found:
        yield found


@dataclass(frozen=True)
class Turn:
    """What one server reported and served, and how it read the objects that were there at first, and at last."""

    version: ServerVersion
    groups: tuple[str, ...]
    at_first: Mapping[str, str]
    at_last: Mapping[str, str]
    written: int
    """How many objects it was given."""
    checked: tuple[str, ...]
    """What the check of versions finds before an upgrade to the next minor."""
    seats: float
    """How many requests it answers at once."""


@pytest.fixture(scope="module")
def turns(servers: ApiServers) -> Mapping[str, Turn]:
    """The old server, the new one that emulates it, the old one again, and the new one as itself."""
    done: dict[str, Turn] = {}
    for name, version, flags, writes in (
        ("old", OLD, (), "before"),
        ("emulates", TARGET, (EMULATE,), "meanwhile"),
        ("old again", OLD, (), ""),
        ("new", TARGET, (), ""),
    ):
        with servers.serving(version, *flags) as kube:
            found = digests(kube, "before", "meanwhile")
            written = write_every_kind(kube, writes) if writes else 0
            assert written in (0, len(stored_kinds(kube))), "there is an object of every kind"
            told, groups = ServerVersion.parse(kube.raw("/version")), read_groups(kube)
            own = tuple(group for group in groups if ".example/" not in group)
            seats = sum(parse(kube.raw("/metrics")).seats.values())
            done[name] = Turn(told, own, found, digests(kube, "before", "meanwhile"), written, _checked(kube), seats)
    return done


def _checked(kube: KubeAdapter) -> tuple[str, ...]:
    context = replace(checked(kube), observed=observe(kube, FakeHelm(), ()), target=KubernetesVersion(1, 38, 0))
    return tuple(item.id for item in run_checks(context, [("version", check_version)]))


def test_seats_are_as_many_as_two_flags_say(turns: Mapping[str, Turn]) -> None:
    """Of either version: 400 and 200 by default, rounded up for each of some priority levels, of which one is new."""
    assert all(600 <= turn.seats < 620 for turn in turns.values()), turns


def test_emulating_server_is_the_old_one_to_its_clients(turns: Mapping[str, Turn]) -> None:
    """It serves the same groups, and reports the same emulation and compatibility; without it, neither is the same."""
    old, emulates, new = (turns[name] for name in ("old", "emulates", "new"))
    assert [str(turn.version.binary) for turn in (old, emulates)] == [OLD, TARGET]
    assert (old.version.emulated, old.version.compatible) == ((1, 36), (1, 35))
    assert (emulates.version.emulated, emulates.version.compatible) == ((1, 36), (1, 35))
    assert (new.version.emulated, new.version.compatible) == ((1, 37), (1, 36))
    assert old.groups == emulates.groups != new.groups


def test_old_server_reads_every_kind_that_the_emulating_one_wrote(turns: Mapping[str, Turn]) -> None:
    """Field by field, and those that it wrote before; the new minor itself lacks none, and gives some new defaults."""
    old, emulates, again, new = turns.values()
    assert len(emulates.at_last) == old.written + emulates.written > 100
    assert emulates.at_first == old.at_last
    assert again.at_first == emulates.at_last
    assert new.at_first.keys() == emulates.at_last.keys()
    assert new.at_first != emulates.at_last


def test_next_minor_while_another_one_is_emulated(turns: Mapping[str, Turn]) -> None:
    """Only one at a time: the check says so of the server that emulates, and of no other."""
    assert {name: turn.checked for name, turn in turns.items() if turn.checked} == {"emulates": ("version.emulating",)}
