"""An error of what had no time to answer says how busy the host's processors were."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from upgrader.onhost.rehearsal import busy_host as module
from upgrader.onhost.rehearsal.busy_host import busy_host
from upgrader.onhost.rehearsal.processes import Etcd

PRESSURE = "some avg10=3.10 avg60={} avg300=2.60 total=123\nfull avg10=0.00 avg60=99.00 avg300=0.00 total=0\n"
BUSY = "busy: load 9.3 on 2 processors, and for 97 % of the last minute, processes waited for one"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `load`, and `pressure`, of a host with two processors."""
    monkeypatch.setattr(module, "_LOAD", str(tmp_path / "load"))
    monkeypatch.setattr(module, "_PRESSURE", str(tmp_path / "pressure"))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return tmp_path


@pytest.mark.parametrize(
    ("load", "waited", "said"),
    [
        ("9.34", "97.20", BUSY),
        ("9.34", "12.00", ""),
        ("9.34", "", "busy: load 9.3 on 2 processors. Rehearse when it is less busy"),
        ("3.90", "", ""),
        ("", "", ""),
    ],
    ids=["busy", "many that wait for a disk", "without PSI", "neither", "unknown"],
)
def test_only_what_the_kernel_measured_is_said(load: str, waited: str, said: str, kernel: Path) -> None:
    """Nothing of a host that is not busy. Its load also counts what waits for a disk: the pressure is more exact."""
    if load:
        (kernel / "load").write_text(f"{load} 3.74 3.35 2/260 29666\n")
    if waited:
        (kernel / "pressure").write_text(PRESSURE.format(waited))
    assert said in busy_host() if said else busy_host() == ""


def test_an_etcd_that_does_not_answer_in_time(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error says so, too; that of one that has ended has another reason."""
    (kernel / "load").write_text("9.34 3.74 3.35 2/260 29666\n")
    (kernel / "pressure").write_text(PRESSURE.format("97.20"))
    said = []
    for error in (TimeoutError(), OSError("refused")):
        connection = Mock(**{"request.side_effect": error})
        monkeypatch.setattr(http.client, "HTTPConnection", lambda *_, given=connection, **__: given)
        said.append(Etcd(1).missing())
    late = f"the scratch etcd doesn't answer: no answer within 10 s. The host's processors were {BUSY}"
    assert said[0].startswith(late)
    assert said[1] == "the scratch etcd doesn't answer: refused"
