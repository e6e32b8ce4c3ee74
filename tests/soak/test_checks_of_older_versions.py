"""Checks that only older programs, or a network that is cut, make fire: bare processes, no lab.

etcd v3.5 is built from its Go module the first time on a machine: some minutes.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testkit.api_servers import api_servers
from testkit.etcd_members import NAMES, Etcd, new_members
from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.lab_cluster import until
from testkit.versions import OLDER
from testkit.waiting import stretched
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.model.cluster import Cluster
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.etcd_members import check_etcd_members
from upgrader.preflight.networks import check_networks

OLD_ETCD = "v3.5.21"
"""Before the oldest that kubeadm supports."""
WRITES = 10_100
CIDRS = "networking.k8s.io/v1/servicecidrs"
HERE, THERE = "198.51.100.1", "198.51.100.2"
VERSION = KubernetesVersion.parse(OLDER)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """Of the version that labs run; without members at first."""
    found = new_members(tmp_path, Binaries(Silent()).etcd())
    try:
        yield found
    finally:
        found.stop()


def test_members_of_an_older_etcd(etcd: Etcd) -> None:
    """Three of them, one after the other upgraded: too old, then different, and nothing at last."""
    new, old = etcd.programs, Binaries(Silent()).etcd(OLD_ETCD)
    etcd.programs = old
    etcd.start(*NAMES)
    assert etcd.ids(check_etcd_members, *NAMES) == ["etcd-members.old-version"]
    etcd.restart(NAMES[0], new)
    expected = ["etcd-members.old-version", "etcd-members.versions-differ"]
    assert etcd.ids(check_etcd_members, *NAMES) == expected
    for name in NAMES[1:]:
        etcd.restart(name, new)
    until("nothing to be found", lambda: etcd.ids(check_etcd_members, *NAMES) == [], timeout_seconds=60)


def test_member_that_is_cut_off(etcd: Etcd) -> None:
    """It answers its own controller, and knows nothing of what the others write; once it is back, it catches up."""
    with network(etcd, NAMES[2]) as link:
        addresses = {NAMES[0]: HERE, NAMES[1]: HERE, NAMES[2]: THERE}
        etcd.start(*NAMES, flags=["--unsafe-no-fsync"], addresses=addresses)
        assert etcd.ids(check_etcd_members, *NAMES) == []
        run("ip", "link", "set", link, "down")
        until("the others to write", partial(writes, etcd, NAMES[0]), timeout_seconds=30)
        write_many(etcd, NAMES[0])
        assert "etcd-members.behind" in etcd.ids(check_etcd_members, *NAMES)
        run("ip", "link", "set", link, "up")
        until("it to catch up", lambda: etcd.ids(check_etcd_members, *NAMES) == [], timeout_seconds=120)


@contextmanager
def network(etcd: Etcd, name: str) -> Iterator[str]:
    """A network of its own for a member, and the link to it, which is this machine's end."""
    short = uuid.uuid4().hex[:6]
    space, link, its = f"check-{short}", f"ck{short}", f"cm{short}"
    run("ip", "netns", "add", space)
    try:
        run("ip", "link", "add", link, "type", "veth", "peer", "name", its, "netns", space)
        run("ip", "address", "add", f"{HERE}/30", "dev", link)
        run("ip", "link", "set", link, "up")
        run("ip", "-n", space, "address", "add", f"{THERE}/30", "dev", its)
        for device in ("lo", its):
            run("ip", "-n", space, "link", "set", device, "up")
        etcd.ahead[name] = ("ip", "netns", "exec", space)
        yield link
    finally:
        etcd.stop()
        run("ip", "netns", "delete", space)


def run(*words: str) -> None:
    """A command that must succeed."""
    subprocess.run(words, check=True)


def writes(etcd: Etcd, name: str) -> bool:
    """Whether a member takes a write: two of three are still a majority, once they have a leader."""
    return "OK" in etcd.ctl(name, "put", "key", "value", check=False)


def write_many(etcd: Etcd, name: str) -> None:
    """One revision for each request."""
    context = ssl.create_default_context(cafile=str(etcd.folder / "ca.pem"))
    context.load_cert_chain(etcd.folder / "client.pem", etcd.folder / "client.key")
    url = urlsplit(etcd.urls[name])

    def some(count: int) -> None:
        connection = http.client.HTTPSConnection(str(url.hostname), url.port, context=context, timeout=stretched(30))
        for _ in range(count):
            connection.request("POST", "/v3/kv/put", json.dumps({"key": "a2V5", "value": "dmFsdWU="}))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(some, [WRITES // 8 + 1] * 8))


def test_api_without_service_cidrs(tmp_path: Path) -> None:
    """As before v1.33: neither the API nor a pod of kube-apiserver shows from which addresses Services get theirs."""
    with api_servers(tmp_path) as servers:
        without = ("--feature-gates=MultiCIDRServiceAllocator=false", f"--runtime-config={CIDRS}=false")
        for flags, expected in ((), False), (without, True):
            with servers.serving(OLDER, *flags) as kube:
                cluster, observed = Cluster(Path(), Path(), "", Path(), ()), Observed(VERSION, {}, {})
                context = PreflightContext(
                    kube, FakeHosts(), FakeHelm(), FakeClock(), cluster, VERSION, observed, 300.0
                )
                found = [item.id for item in run_checks(context, [("networks", check_networks)])]
                assert ("networks.service-room-unknown" in found) is expected
