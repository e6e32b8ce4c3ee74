"""Checks that ask controllers over SSH, with a real machine: how it is reached, and its certificates."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.certificates import Authority
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.hosts import SshHosts
from upgrader.adapters.own_machine import ThisMachine
from upgrader.model.cluster import Cluster, Host
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.collect import examine
from upgrader.onhost.sending.host_facts import Cgroups
from upgrader.ports import Hosts
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.certificates import check_certificates
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.ssh_access import check_hosts
from upgrader.preflight.ssh_keys import check_key_files

VERSION = KubernetesVersion(1, 37, 1)
YEAR = 365 * 24.0


def ids(ssh: Hosts, check: Check, host: Host) -> list[str]:
    """What a check finds of a controller."""
    cluster = Cluster(Path(), Path(), "", Path(), (host,))
    observed = Observed(VERSION, {}, {})
    context = PreflightContext(
        FakeKube(),
        ssh,
        FakeHelm(),
        SystemClock(),
        cluster,
        VERSION,
        observed,
        300.0,
        ssh_refuses=ThisMachine().ssh_refuses,
    )
    return [item.id for item in run_checks(context, [("family", check)])]


@pytest.fixture
def login(ssh: SshHosts, machine: Host) -> Iterator[Host]:
    """The same machine, for a user who isn't root, and logs in with the same key."""
    name = f"check-{uuid.uuid4().hex[:6]}"
    ssh.run(machine, ["useradd", "--create-home", name])
    try:
        script = f"install -d -m 700 -o {name} ~{name}/.ssh && install -m 600 -o {name} ~root/.ssh/* ~{name}/.ssh/"
        ssh.run(machine, ["sh", "-c", script])
        yield replace(machine, user=name)
    finally:
        ssh.run(machine, ["userdel", "--remove", name], check=False)


def test_controller_that_ssh_reaches_otherwise(ssh: SshHosts, machine: Host, login: Host) -> None:
    """At a port where nobody listens, as somebody else, and where no command is run."""
    assert ids(ssh, check_hosts, machine) == []
    assert ids(ssh, check_hosts, replace(machine, port=1)) == ["hosts.unreachable"]
    assert ids(ssh, check_hosts, login) == ["hosts.not-root"]
    ssh.run(machine, ["usermod", "--shell", "/bin/false", login.user])
    with SshHosts() as anew:
        assert ids(anew, check_hosts, login) == ["hosts.command"]


def test_key_that_ssh_ignores(tmp_path: Path) -> None:
    """Found by its permissions, exactly where OpenSSH itself refuses the file."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    host = Host("controller-1", "10.0.0.2", key_file=key)
    for mode in (0o600, 0o400, 0o700, 0o640, 0o604, 0o620):
        key.chmod(mode)
        asked = subprocess.run(["ssh-keygen", "-y", "-f", str(key)], capture_output=True, text=True, check=False)
        found = ids(FakeHosts(), check_key_files, host)
        assert found == (["ssh-keys.open"] if "UNPROTECTED PRIVATE KEY FILE" in asked.stderr else []), oct(mode)
        assert bool(asked.returncode) == bool(found), asked.stderr
    assert found


def test_certificates_of_a_controller(ssh: SshHosts, machine: Host, tmp_path: Path) -> None:
    """Those of kubeadm are no finding; one more is, by the hours from now between which it is valid."""
    authority = Authority(tmp_path / "ca")
    found = {"kubeadm's": ids(ssh, check_certificates, machine)}
    place = f"/etc/kubernetes/pki/check-{uuid.uuid4().hex[:6]}.crt"
    try:
        ssh.write(machine, place, b"no certificate")
        found["no certificate"] = ids(ssh, check_certificates, machine)
        for name, hours in (("long", (-1, YEAR)), ("ends", (-1, 48)), ("ended", (-48, -1)), ("early", (48, YEAR))):
            authority.issue(tmp_path / name, name, hours=hours)
            ssh.write(machine, place, (tmp_path / f"{name}.pem").read_bytes())
            found[name] = ids(ssh, check_certificates, machine)
    finally:
        ssh.run(machine, ["rm", "-f", place])
    assert found == {
        "kubeadm's": [],
        "no certificate": ["certificates.unknown"],
        "long": [],
        "ends": ["certificates.expiring"],
        "ended": ["certificates.expired"],
        "early": ["certificates.not-yet-valid"],
    }


def test_cgroups_as_the_kernel_has_them(ssh: SshHosts, machine: Host) -> None:
    """Asked with the program that is sent to controllers; the kubelet there runs with what it has been told."""
    found = examine(ssh, machine).cgroups
    kind = ssh.run(machine, ["stat", "-f", "-c", "%T", "/sys/fs/cgroup"]).stdout.strip()
    assert isinstance(found, Cgroups)
    assert found.version == (2 if kind == "cgroup2fs" else 1)
    assert found.version == 2 or found.fail_v1 is False
