"""Checks of etcd on a real etcd of three members, asked with the program that is sent to controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.etcd_members import NAMES, Etcd, new_members
from testkit.lab_cluster import until
from testkit.ports import free_port
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.preflight.etcd_image import check_etcd_image
from upgrader.preflight.etcd_members import check_etcd_members
from upgrader.preflight.planned_etcd import check_planned_etcd


@pytest.fixture
def new_etcd(tmp_path: Path) -> Iterator[Callable[..., Etcd]]:
    """Starts an etcd, which is ended after the test."""
    etcd = new_members(tmp_path, Binaries(Silent()).etcd())

    def start(*names: str, flags: Sequence[str] = ()) -> Etcd:
        etcd.start(*names, flags=flags)
        return etcd

    try:
        yield start
    finally:
        etcd.stop()


def test_members_that_are_the_controllers(new_etcd: Callable[..., Etcd]) -> None:
    """Three healthy members are no finding; one that is no controller is, and a controller without a member."""
    etcd = new_etcd(*NAMES)
    assert etcd.ids(check_etcd_members, *NAMES) == []
    without = etcd.ids(check_etcd_members, *NAMES[:2])
    assert without == ["etcd-members.no-spare", "etcd-members.unexpected"]
    (etcd.folder / "controller-4").mkdir()
    assert etcd.ids(check_etcd_members, *NAMES, "controller-4") == ["etcd-members.missing"]
    assert etcd.ids(check_etcd_members, "controller-4") == ["etcd-members.elsewhere"]


def test_image_that_members_get(new_etcd: Callable[..., Etcd]) -> None:
    """A later patch of three healthy members is no finding; what they can't get is, and so is where they can't."""
    etcd = new_etcd(*NAMES)

    def found(version: str, *controllers: str, read: Sequence[str] = NAMES) -> list[str]:
        image = f"example.com/etcd:{version}-0"
        ids = etcd.ids(check_etcd_image, *(controllers or NAMES), image=image, read=read)
        # What is before can't be told from its name here, and so is taken for another minor.
        return [each for each in ids if each != "etcd-image.no-return" or version == "3.7.2"]

    assert found("3.6.14") == []
    assert found("3.7.2") == ["etcd-image.no-return", "etcd-image.precondition"]
    assert found("3.6.4") == ["etcd-image.older"]
    assert found("3.5.9") == ["etcd-image.older", "etcd-image.too-old"]
    assert found("3.8.0") == ["etcd-image.skips-minor"]
    assert found("3.6.14", read=NAMES[:2]) == ["etcd-image.unread"]
    assert found("3.6.14", *NAMES[:2]) == ["etcd-image.not-ready", "etcd-image.unlisted"]
    (etcd.folder / "controller-4").mkdir()
    assert found("3.6.14", "controller-4", read=()) == ["etcd-image.elsewhere"]
    etcd.members[NAMES[2]].kill()
    etcd.members[NAMES[2]].wait()
    assert found("3.6.14") == ["etcd-image.not-ready"]


def test_image_of_a_single_member(new_etcd: Callable[..., Etcd]) -> None:
    """The API waits while it restarts."""
    etcd = new_etcd(NAMES[0])
    assert etcd.ids(check_etcd_image, NAMES[0]) == []
    found = etcd.ids(check_etcd_image, NAMES[0], image="example.com/etcd:3.6.14-0")
    assert "etcd-image.no-spare" in found


def test_member_that_is_down(new_etcd: Callable[..., Etcd]) -> None:
    """It doesn't answer, and the other two have no spare."""
    etcd = new_etcd(*NAMES)
    assert etcd.ids(check_etcd_members, *NAMES) == []
    etcd.members[NAMES[2]].kill()
    etcd.members[NAMES[2]].wait()
    assert etcd.ids(check_etcd_members, *NAMES) == ["etcd-members.no-spare", "etcd-members.unread"]


def test_member_that_never_joined(new_etcd: Callable[..., Etcd]) -> None:
    """etcd lists it without a name from the moment that it was added; removed, it is no finding any more."""
    etcd = new_etcd(NAMES[0])
    assert etcd.ids(check_etcd_members, NAMES[0]) == []
    said = etcd.ctl(NAMES[0], "member", "add", "late", "--learner", f"--peer-urls=http://127.0.0.1:{free_port()}")
    assert etcd.ids(check_etcd_members, NAMES[0]) == ["etcd-members.learner", "etcd-members.unexpected"]
    etcd.ctl(NAMES[0], "member", "remove", said.split()[1])
    assert etcd.ids(check_etcd_members, NAMES[0]) == []


def test_database_at_its_quota(new_etcd: Callable[..., Etcd]) -> None:
    """First it is nearly full; then etcd itself raises the alarm, and refuses every write."""
    etcd = new_etcd(NAMES[0], flags=["--quota-backend-bytes=4194304"])
    assert etcd.ids(check_etcd_members, NAMES[0]) == []
    seen: set[str] = set()
    for number in range(40):
        if not etcd.ctl(NAMES[0], "put", f"key-{number}", stdin=b"x" * 200_000, check=False):
            break
        seen |= set(etcd.ids(check_etcd_members, NAMES[0])) if number > 10 else set()
    assert etcd.ids(check_etcd_members, NAMES[0]) == ["etcd-members.nearly-full", "etcd.alarm"]
    assert seen <= {"etcd-members.nearly-full"}


def test_database_with_holes(new_etcd: Callable[..., Etcd]) -> None:
    """What was deleted and compacted leaves room that only a defragmentation gives back."""
    etcd = new_etcd(NAMES[0])
    for number in range(110):
        etcd.ctl(NAMES[0], "put", f"key-{number}", stdin=b"x" * 1_000_000)
    assert etcd.ids(check_etcd_members, NAMES[0]) == []
    etcd.ctl(NAMES[0], "del", "", "--prefix")
    revision = yaml.safe_load(etcd.ctl(NAMES[0], "endpoint", "status", "-w", "json"))[0]["Status"]["header"]["revision"]
    etcd.ctl(NAMES[0], "compaction", str(revision), "--physical")

    def counted() -> bool:
        # As in any cluster, something is written now and then: etcd frees pages, and counts them, with a later write.
        etcd.ctl(NAMES[0], "put", "heartbeat", stdin=b"x")
        return etcd.ids(check_etcd_members, NAMES[0]) == ["etcd-members.fragmented"]

    until("the holes to be counted", counted, timeout_seconds=120)
    etcd.ctl(NAMES[0], "defrag")
    assert etcd.ids(check_etcd_members, NAMES[0]) == []


def test_planned_addresses(new_etcd: Callable[..., Etcd]) -> None:
    """Where it answers, nothing is found; at another port nobody does, and without the files nobody is asked."""
    etcd = new_etcd(NAMES[0])
    right, wrong = etcd.urls[NAMES[0]], f"https://127.0.0.1:{free_port()}"

    def planned(*servers: str, certificate: str = "client.pem") -> list[str]:
        files = {"cafile": "ca.pem", "certfile": certificate, "keyfile": "client.key"}
        flags = [f"--etcd-{flag}={etcd.folder / file}" for flag, file in files.items()]
        container: dict[str, Any] = {
            "name": "kube-apiserver",
            "command": ["kube-apiserver", f"--etcd-servers={','.join(servers)}", *flags],
        }
        item = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kube-apiserver", "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        return etcd.ids(check_planned_etcd, NAMES[0], manifest=yaml.safe_dump(item))

    assert planned(right) == []
    assert planned(wrong) == ["planned-etcd.unanswered"]
    assert planned(right, certificate="server-of-nobody.pem") == ["planned-etcd.unread"]
