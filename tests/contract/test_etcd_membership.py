"""A member leaves a real etcd, by the program that is sent to a controller."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from testkit.etcd_members import NAMES, PATIENT, Etcd, new_members
from testkit.fakes.hosts import FakeHosts
from upgrader.adapters.clock import SystemClock
from upgrader.adopt.etcd_membership import MemberToRemove, change_members
from upgrader.adopt.removal_steps import LeaveEtcdStep
from upgrader.errors import HostError
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult


def ids(etcd: Etcd, asked: str) -> dict[str, str]:
    """Member → its ID, as one of them lists it."""
    lines = etcd.ctl(asked, "member", "list").splitlines()
    return {line.split(", ")[2]: line.split(", ")[0] for line in lines}


def leader(etcd: Etcd) -> str:
    """The member that leads."""
    for name in etcd.members:
        status = json.loads(etcd.ctl(name, "endpoint", "status", "--write-out=json"))[0]["Status"]
        if status["leader"] == status["header"]["member_id"]:
            return name
    raise AssertionError("no member leads")


def test_leader_hands_over_and_is_removed(tmp_path: Path) -> None:
    """Repeated, nothing is left to do; etcd refuses a leadership that isn't the asked member's to give."""
    etcd, hosts, notes = new_members(tmp_path, Binaries(Silent()).etcd()), FakeHosts(), list[str]()

    def run(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        return etcd.run(host, [*command, str(etcd.folder / host.name)], stdin)

    hosts.commands["python3"] = run
    try:
        etcd.start(*NAMES, flags=PATIENT)
        leaves = leader(etcd)
        stays, other = (name for name in NAMES if name != leaves)
        known = ids(etcd, stays)
        assert change_members(hosts, Host(leaves, ""), "lead", known[stays]) == "moved"
        assert leader(etcd) == stays
        with pytest.raises(HostError, match="not leader"):
            change_members(hosts, Host(other, ""), "lead", known[leaves])
        LeaveEtcdStep(
            hosts, SystemClock(), Host(leaves, ""), Host(stays, ""), MemberToRemove(known[leaves]), None
        ).apply(notes.append)
        assert notes[-1] == f"etcd's member {known[leaves]} of {leaves}: removed"
        assert sorted(ids(etcd, stays)) == sorted([stays, other])
        assert change_members(hosts, Host(stays, ""), "remove", known[leaves]) == "it was no longer a member"
    finally:
        etcd.stop()
