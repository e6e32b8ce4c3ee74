"""The whole way of an operator who has `dist/`, a kubeconfig and a bastion: install-to-recovery.md is what happens.

The operator's machine is a Debian without a checkout, beside a lab whose machines are behind a bastion.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from testkit.bare_machine import BareMachine
from testkit.command import upgrader
from testkit.console_page import console_block, differences
from testkit.kinds.catalogue import only_through_the_bastion
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.operators_network import operators_address, operators_network
from testkit.pushed_changes import BAD_FLAG
from testkit.recovery import assert_recovered
from upgrader.adapters.helm import find_helm
from upgrader.lab.lifecycle import Lab
from upgrader.lab.private_registry import registry_program
from upgrader.lab.progress_port import Silent
from upgrader.lab.spec import Placement

PAGE = Path(__file__).with_name("install-to-recovery.md")
REGISTRY = "registry.example.com"
_TRUST = "/etc/containerd/certs.d"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LabCluster]:
    """As kubeadm made it, behind a bastion."""
    cluster = LabCluster(f"install-{os.getpid()}", tmp_path, tmp_path / "kept")
    try:
        cluster.lab("up", "--kubernetes", OLD, "--bastion")
        yield cluster
    finally:
        upgrader("-C", tmp_path, "lab", "down", "--force", "--name", cluster.name)


@dataclass(frozen=True)
class Operator:
    """The operator's machine, with a registry of containers beside it that the cluster's nodes trust."""

    machine: BareMachine
    mounted: dict[str, Path]

    def follows(self, heading: str) -> None:
        """Run the commands below a heading of the page; raises AssertionError with what was otherwise."""
        expected = console_block(PAGE.read_text(), heading)
        seen = self.machine.run(
            [step.command for step in expected],
            mounted=self.mounted,
            before="docker-registry serve /etc/registry.yml & "
            "for i in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/5000) && break; sleep 0.1; done",
            seconds=1800,
        )
        for step in seen:  # for the page, when it is written
            sys.stdout.write("\n".join([f"$ {step.command}", *step.lines, ""]))
        assert not (wrong := differences(expected, seen)), wrong


@contextmanager
def operator(cluster: LabCluster, dist: Path, folder: Path) -> Iterator[Operator]:
    """With what somebody has who works with that cluster: kubeconfig, keys, OpenSSH's configuration."""
    placement = Lab.find(cluster.name).placement
    with operators_network(placement) as network:
        machine = BareMachine.made(folder / "machine", network)
        _ssh(machine.root / "root/.ssh", placement)
        (machine.root / "root/.kube").mkdir()
        shutil.copy(cluster.folder / "kubeconfig", machine.root / "root/.kube/config")
        # Which images this site has of HAProxy and CoreDNS.
        shutil.copytree(cluster.folder / "values", machine.root / "root/site-values")
        (machine.root / "root/site-values/pod-checkpointer.yaml").unlink()
        _registry(machine.root, folder)
        _trusted(cluster, folder / "registry.crt", operators_address(placement))
        program = registry_program(Silent()) / "usr/bin/docker-registry"
        yield Operator(
            machine,
            {
                "/root/dist": dist,
                "/usr/local/bin/helm": find_helm().resolve(),
                "/usr/local/bin/docker-registry": program,
            },
        )


def _ssh(folder: Path, placement: Placement) -> None:
    """Keys for both hops, the way to the nodes, and the bastion's host key: the nodes' aren't known yet."""
    folder.mkdir(mode=0o700)
    bastion, theirs = placement.node("bastion-1"), placement.folder / "ssh"
    for name in ("id_ed25519", "id_bastion"):
        shutil.copy(theirs / name, folder / name)
    (folder / "config").write_text(
        f"Host bastion\n  HostName {bastion.ssh_address}\n  Port {bastion.ssh_port}\n  User root\n"
        f"  IdentityFile ~/.ssh/id_bastion\n\nHost {placement.gateway.rpartition('.')[0]}.*\n  ProxyJump bastion\n"
    )
    known = (theirs / "known_hosts").read_text().splitlines()
    (folder / "known_hosts").write_text(
        "".join(f"{line}\n" for line in known if bastion.ssh_address in line.split()[0])
    )


def _registry(root: Path, folder: Path) -> None:
    """The registry's configuration and certificate, and the operator's trust in it."""
    certificate = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "30",
        "-subj",
        f"/CN={REGISTRY}",
    ]
    certificate += ["-addext", f"subjectAltName=DNS:{REGISTRY}"]
    certificate += ["-keyout", str(root / "etc/registry.key"), "-out", str(folder / "registry.crt")]
    subprocess.run(certificate, check=True, capture_output=True)
    trusted = root / f"etc/containers/certs.d/{REGISTRY}:5000/ca.crt"
    trusted.parent.mkdir(parents=True)
    for target in (trusted, root / "etc/registry.crt", root / "root/registry-ca.crt"):
        shutil.copy(folder / "registry.crt", target)
    tls = {"certificate": "/etc/registry.crt", "key": "/etc/registry.key"}
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": "/var/lib/registry"}},
        "http": {"addr": ":5000", "tls": tls},
    }
    (root / "etc/registry.yml").write_text(yaml.safe_dump(config))
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {REGISTRY}\n")


def _trusted(cluster: LabCluster, certificate: Path, address: str) -> None:
    """Every node knows the registry's address, and its containerd the certificate."""
    server = f"{REGISTRY}:5000"
    hosts = f'server = "https://{server}"\n[host."https://{server}"]\nca = "{_TRUST}/{server}/ca.crt"\n'
    lab = Lab.find(cluster.name)
    for node in lab.placement.nodes:
        if node.kubernetes:
            lab.run(
                node.name,
                f"echo '{address} {REGISTRY}' >>/etc/hosts; mkdir -p {_TRUST}/{server}; cd {_TRUST}/{server}; "
                f"printf %s '{hosts}' >hosts.toml; printf %s '{certificate.read_text()}' >ca.crt",
            )


def test_from_dist_to_recovery(cluster: LabCluster, dist: Path, tmp_path: Path) -> None:
    """Installed without a network but the bastion's, the registry's and the API's: init, images, adopt, run, a bad
    change by Helm alone, a power cut, recover: every command of the page with its output, and the cluster at the end.
    """
    only_through_the_bastion(cluster)
    with operator(cluster, dist, tmp_path) as somebody:
        somebody.follows("Install")
        somebody.follows("The cluster folder")
        somebody.follows("Adopt")
        cluster.wait_healthy(OLD)
        somebody.follows("Upgrade")
        cluster.wait_healthy(TARGET)
        good = cluster.manifests()
        somebody.follows("Break it")
        until("the new pod to crash", lambda: cluster.crashed(BAD_FLAG), timeout_seconds=120)
        cluster.crash_and_boot()
        somebody.follows("Recover")
        journal = next((tmp_path / "machine/root/my-cluster/runs").glob("*-recover"))
        assert journal.is_dir()
        shutil.copytree(journal, cluster.folder / "runs" / journal.name)
        assert_recovered(cluster, good, TARGET)
