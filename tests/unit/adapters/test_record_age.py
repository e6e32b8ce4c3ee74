"""How old a record of Helm's is, whatever the clocks of the machines say on which Helm runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from testkit.fakes.kube import FakeKube
from upgrader.adapters.record_age import RecordAge
from upgrader.errors import ApiError
from upgrader.ports import Kind

SECRETS = Kind("v1", "secrets")


def record(kube: FakeKube, created: float, *written: float, revision: int = 2) -> None:
    """Put the record of release `app`, created and written so many seconds ago by the API server's clock."""
    now = kube.server_time()

    def ago(seconds: float) -> str:
        return (now - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    meta = {
        "name": f"sh.helm.release.v1.app.v{revision}",
        "labels": {"owner": "helm", "name": "app", "version": str(revision)},
        "creationTimestamp": ago(created),
        "managedFields": [{"manager": "helm", "time": ago(each)} for each in written],
    }
    kube.put(SECRETS, {"metadata": meta}, "shop")


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_age_is_by_one_clock(ahead: float) -> None:
    """The API server says what time it is, and when it stored the record: this machine's clock may be an hour off."""
    kube = FakeKube()
    kube.ahead_seconds = ahead
    record(kube, 100)
    record(kube, 9000, revision=1)
    assert RecordAge(kube)("app", "shop", 2) == pytest.approx(100, abs=2)


def test_age_is_that_of_the_last_write() -> None:
    """`uninstalling` is written into the record of an upgrade that is weeks old."""
    kube = FakeKube()
    record(kube, 9000, 9000, 7)
    assert RecordAge(kube)("app", "shop", 2) == pytest.approx(7, abs=2)


def test_record_that_is_no_secret() -> None:
    """HELM_DRIVER may have it in ConfigMaps, or in a database."""
    assert RecordAge(FakeKube())("app", "shop", 2) is None


def test_date_that_can_not_be_read_is_unknown() -> None:
    """Nothing is taken for old because of it."""
    kube = FakeKube()
    labels = {"owner": "helm", "name": "app", "version": "2"}
    meta = {"name": "sh.helm.release.v1.app.v2", "labels": labels, "creationTimestamp": "soon"}
    kube.put(SECRETS, {"metadata": meta}, "shop")
    with pytest.raises(ApiError, match="no readable date"):
        RecordAge(kube)("app", "shop", 2)
