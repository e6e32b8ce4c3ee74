"""A minor upgrade that goes back with all that was written meanwhile, forward again, and is finalized."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testkit.every_kind import LEFT_TO_CONTROLLERS, digests, write_every_kind
from testkit.lab_cluster import OLD, TARGET, LabCluster, make_cluster
from testkit.versions import kubeadms_version
from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import ServerVersion
from upgrader.ports import Kind

_NODES = Kind("v1", "nodes", namespaced=False)

WRITES_SECONDS = float(os.environ.get("EMULATION_SECONDS", "120"))
"""For how long objects are written while the new version emulates the old one."""


@pytest.fixture(scope="module", params=[1, 3])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of one controller, and one of three."""
    lent = os.environ.get("UPGRADER_LAB")
    if lent:
        folder = Path(lent).resolve()
        cluster = LabCluster(folder.name, folder.parents[1], tmp_path_factory.mktemp("kept"))
        if len(cluster.kube.list(_NODES, labels="node-role.kubernetes.io/control-plane")) == request.param:
            yield cluster
            return
    home, switches = tmp_path_factory.mktemp("lab"), ("--controllers", str(request.param))
    cluster = make_cluster(f"e2e-emulation-{request.param}-{os.getpid()}", home, *switches)
    try:
        yield cluster
    finally:
        cluster.down()


def test_back_with_every_object_and_forward_again(lab: LabCluster) -> None:
    """Every kind, written before and meanwhile, is the same for the old version, and the new one lacks none of it."""
    lab.change_settings({"policy": {"emulation": True}})
    failed = dict[str, object]()

    def must(*command: str) -> None:
        ended = lab.upgrader(*command, "--yes", timeout_seconds=1200)
        assert ended.exit_code == 0, ended
        seen = lab.report()["availability"]
        if seen["failed"]:
            failed[f"{len(lab.runs())}: {command[0]}"] = seen

    names = ["before"]
    write_every_kind(lab.kube, "before", leave_out=LEFT_TO_CONTROLLERS)
    must("run", "--to", TARGET)
    assert _emulated(lab) == (1, 36)
    begun = time.monotonic()
    while time.monotonic() - begun < WRITES_SECONDS:
        names.append(f"meanwhile-{len(names)}")
        write_every_kind(lab.kube, names[-1], leave_out=LEFT_TO_CONTROLLERS)
    written = digests(lab.kube, *names)

    must("rollback")
    lab.wait_healthy(OLD)
    assert kubeadms_version(lab.kube) == OLD
    assert _changed(digests(lab.kube, *names), written) == {}

    must("run", "--to", TARGET)
    assert _emulated(lab) == (1, 36)
    assert _changed(digests(lab.kube, *names), written) == {}

    must("finalize")
    lab.wait_healthy(TARGET)
    assert kubeadms_version(lab.kube) == TARGET
    assert _emulated(lab) == (1, 37)
    assert digests(lab.kube, *names).keys() == written.keys()
    refused = lab.upgrader("rollback", "--yes")
    assert refused.exit_code == 2, refused
    assert "can no longer be resumed or rolled back" in refused.stderr
    assert "Nothing to finalize" in lab.upgrader("finalize", "--yes").stderr
    assert failed == {}, "what clients saw comes last: a busy machine must not hide what became of the objects"


def _emulated(lab: LabCluster) -> Minor | None:
    return ServerVersion.parse(lab.kube.raw("/version")).emulated


def _changed(found: Mapping[str, str], known: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What is lost, new, or another: name → digests."""
    names = found.keys() | known.keys()
    return {name: (known.get(name, ""), found.get(name, "")) for name in names if found.get(name) != known.get(name)}
