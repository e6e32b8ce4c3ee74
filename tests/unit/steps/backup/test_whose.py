"""Whose backup it is: by the UID that the API or etcd tells, or by the cluster's CA."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.steps.backup.backups import manifest
from tests.unit.steps.backup.test_etcd import MEMBER
from upgrader.app.restore import _check_cluster
from upgrader.errors import ApiUnavailable, BackupRefused
from upgrader.steps.backup.take import AUTHORITY


def session(authority: bytes | None) -> Any:
    """A cluster whose API and etcd don't answer, with such a CA."""
    hosts = FakeHosts()
    if authority is not None:
        hosts.files["controller-1", AUTHORITY] = authority

    def uid() -> str:
        raise ApiUnavailable("no answer")

    return SimpleNamespace(tools=SimpleNamespace(hosts=hosts), cluster_uid=uid)


def test_without_api_and_etcd_the_ca_decides() -> None:
    """The same one is this cluster's; another one is refused."""
    ours = replace(manifest(), authority=hashlib.sha256(b"ours").hexdigest())
    _check_cluster(session(b"ours"), MEMBER, ours)
    with pytest.raises(BackupRefused, match="a different CA"):
        _check_cluster(session(b"theirs"), MEMBER, ours)


def test_two_clusters_without_a_ca_there_are_not_the_same() -> None:
    """Both may have it in another folder: nothing was compared then."""
    taken = replace(manifest(), authority=hashlib.sha256(b"").hexdigest())
    with pytest.raises(BackupRefused, match="a different CA"):
        _check_cluster(session(None), MEMBER, taken)
