"""Members of a real etcd as bare processes, queried with the program that is sent to controllers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from testkit.certificates import Authority
from testkit.ending import ENDS_WITH_US
from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.lab_cluster import until
from testkit.ports import free_port
from testkit.waiting import stretched
from upgrader.model.cluster import Cluster, Host
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion
from upgrader.model.observed import Observed
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.collect import examine_all
from upgrader.onhost.sending.etcd_answers import ask_etcd
from upgrader.ports import CommandResult
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.context import PreflightContext
from upgrader.steps.etcd.plan import plan_etcd
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["NAMES", "PATIENT", "Etcd", "new_members"]

NAMES = ("controller-1", "controller-2", "controller-3")
VERSION = KubernetesVersion(1, 37, 1)
PATIENT = ("--heartbeat-interval=500", "--election-timeout=5000")
"""Flags for members that keep their leader on a busy machine, where heartbeats are late: by default etcd elects another
one after a second. A leader that is killed leaves the others without one for as long.
"""
FILES = {"cacert": "ca.pem", "cert": "client.pem", "key": "client.key"}


def new_members(folder: Path, programs: Path) -> Etcd:
    """No members at first, with certificates for later ones."""
    authority = Authority(folder / "ca")
    for name in ("server", "client"):
        authority.issue(folder / name, name)
    return Etcd(folder, programs)


@dataclass
class Etcd:
    """Members on this machine, each with a folder that represents its controller's disk."""

    folder: Path
    programs: Path
    """Where etcd and etcdctl are."""
    members: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    ahead: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Member → the prefix of every command on its machine; empty if that is this one."""
    commands: dict[str, list[str]] = field(default_factory=dict)

    def start(self, *names: str, flags: Sequence[str] = (), addresses: Mapping[str, str] | None = None) -> None:
        """Start a cluster of these members, and wait until each is healthy.

        `addresses`: their listen addresses for peers; 127.0.0.1 for members that aren't named.
        """
        ports = {name: (free_port(), free_port()) for name in names}
        peers = {name: f"http://{(addresses or {}).get(name, '127.0.0.1')}:{port}" for name, (_, port) in ports.items()}
        cluster = ",".join(f"{name}={peer}" for name, peer in peers.items())
        for name, (client, _) in ports.items():
            self.urls[name] = f"https://127.0.0.1:{client}"
            self._disk(name)
            self.commands[name] = [
                f"--name={name}",
                f"--data-dir={self.folder / name}.data",
                f"--listen-client-urls={self.urls[name]}",
                f"--advertise-client-urls={self.urls[name]}",
                f"--listen-peer-urls={peers[name]}",
                f"--initial-advertise-peer-urls={peers[name]}",
                f"--initial-cluster={cluster}",
                f"--cert-file={self.folder / 'server.pem'}",
                f"--key-file={self.folder / 'server.key'}",
                f"--trusted-ca-file={self.folder / 'ca.pem'}",
                "--client-cert-auth",
                *flags,
            ]
            self.launch(name, self.programs)
        for name in names:
            until(f"{name} to be healthy", partial(self._healthy, name), timeout_seconds=60)

    def launch(self, name: str, programs: Path) -> None:
        """Start a member with these programs, on its existing data."""
        command = [*self.ahead.get(name, ()), *ENDS_WITH_US, str(programs / "etcd"), *self.commands[name]]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.members[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def restart(self, name: str, programs: Path) -> None:
        """Start a member again, with other programs on the same data."""
        self.members[name].terminate()
        self.members[name].wait()
        self.launch(name, programs)
        until(f"{name} to be healthy", partial(self._healthy, name), timeout_seconds=60)

    def _disk(self, name: str) -> None:
        pki = self.folder / name / "etc/kubernetes/pki/etcd"
        pki.mkdir(parents=True)
        for source, target in (("ca.pem", "ca.crt"), ("client.pem", "healthcheck-client.crt"), ("client.key", None)):
            (pki / (target or "healthcheck-client.key")).symlink_to(self.folder / source)
        manifest = self.folder / name / "etc/kubernetes/manifests/etcd.yaml"
        manifest.parent.mkdir()
        manifest.write_text(f"    - --listen-client-urls={self.urls[name]}\n    - --name={name}\n")

    def ctl(self, name: str, *words: str, stdin: bytes = b"", check: bool = True) -> str:
        """What etcdctl prints, asking that member."""
        files = [f"--{flag}={self.folder / file}" for flag, file in FILES.items()]
        command = [
            *self.ahead.get(name, ()),
            str(self.programs / "etcdctl"),
            f"--endpoints={self.urls[name]}",
            *files,
            *words,
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=stretched(60))
        assert done.returncode == 0 or not check, done.stderr.decode()
        return done.stdout.decode()

    def _healthy(self, name: str) -> bool:
        return "is healthy" in self.ctl(name, "endpoint", "health", check=False)

    def stop(self) -> None:
        """End all members."""
        for member in self.members.values():
            member.kill()
            member.wait()

    def run(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        """What SSH to a controller would do."""
        words = command[1:] if len(command) > 3 else [*command[1:], str(self.folder / host.name)]
        python = [*self.ahead.get(host.name, ()), sys.executable]
        done = subprocess.run([*python, *words], input=stdin, capture_output=True, check=False, timeout=stretched(60))
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ids(
        self, check: Check, *controllers: str, manifest: str = "", image: str = "", read: Sequence[str] | None = None
    ) -> list[str]:
        """The findings of a check if these are the controllers.

        `manifest`: that of kube-apiserver's release; `image`: the image that etcd's members are to get; `read`: the
        controllers whose manifest of etcd could be read (all).
        """
        hosts = FakeHosts()
        hosts.commands["python3"] = self.run
        cluster = Cluster(Path(), Path(), "", Path(), tuple(Host(name, "127.0.0.1") for name in controllers))
        steps = (PlannedRelease(ReleaseSpec("kube-apiserver", "kube-system", Path()), "upgrade", "", "", manifest, ()),)
        names = controllers if read is None else read
        observed = Observed(VERSION, {}, {}, etcd=dict.fromkeys(names, "example.com/etcd:before"))
        version = EtcdVersion.of_image(image)
        planned = plan_etcd(EtcdSettings(image, version), observed) if version else ()
        context = PreflightContext(FakeKube(), hosts, FakeHelm(), FakeClock(), cluster, VERSION, observed, 300.0)
        context = replace(
            context,
            plan=Plan(VERSION, VERSION, (*planned, *(steps if manifest else ()))),
            examine=partial(examine_all, hosts, cluster),
            ask_etcd=partial(ask_etcd, hosts),
        )
        return sorted(item.id for item in run_checks(context, [("family", check)]))
