"""A rehearsal of a plan's first hop, under the cluster's lock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from upgrader.app import rehearsal
from upgrader.app.front_end import FrontEnd
from upgrader.app.rehearsal import Rehearsed, rehearse
from upgrader.errors import Blocked, HostError, HostUnreachable, RehearsalFailed, UsageError
from upgrader.model.cluster import Host
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.version import KubernetesVersion
from upgrader.steps.rehearsal.differences import Difference
from upgrader.steps.rehearsal.from_backup import BackupRehearsal
from upgrader.steps.rehearsal.rehearsal import Rehearsal
from upgrader.steps.rehearsal.result import Result
from upgrader.steps.rehearsal.servers import Server

PLAN = SimpleNamespace(current=KubernetesVersion(1, 36, 3), target=KubernetesVersion(1, 37, 1), emulated=None)
EMULATING = SimpleNamespace(**{**vars(PLAN), "emulated": (1, 36)})
"""As a run leaves it until `upgrader finalize`."""
OBSERVED = Observed(PLAN.current, {}, {}, nodes={"a": ObservedNode()})
SERVERS = {"current": Server("a", (), (), ""), "target": Server("b", (), (), "")}


def rehearsed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *differences: Difference,
    planned_as: Any = PLAN,
    failure: HostError | None = None,
    on: str | None = None,
    here: Any = None,
    audit_logs: Sequence[Path] = (),
    asked: Callable[[Rehearsal], None] = lambda _: None,
    unrecorded: str = "",
    notes: list[str] | None = None,
) -> Rehearsed:
    """Of a plan, with these differences, or with a controller's failure. PLAN is what runs in the end. `on`: a host of
    group `rehearsal`. `unrecorded`: what fails, so that there is no record.
    """
    locked: list[bool] = []
    note_asked = asked

    @contextmanager
    def lock(*_: object, **__: object) -> Iterator[None]:
        locked.append(True)
        yield
        locked.clear()

    def run(asked: Rehearsal, servers: Mapping[str, Server], note: Callable[[str], None]) -> Result:
        assert servers == SERVERS and locked and asked.on == (Host(on, "10.0.0.9") if on else None)
        if failure is not None:
            raise failure
        note_asked(asked)
        return Result("controller-1", differences, {}, 1.0, 1)

    monkeypatch.setattr(rehearsal, "bind_rehearsal", lambda *_: "bound")
    monkeypatch.setattr(rehearsal, "folder_inputs", lambda _: "digest")
    monkeypatch.setattr(rehearsal, "write_record", lambda _, *more: written.append((more[0], more[-1])))
    written: list[tuple[str, datetime]] = []
    if unrecorded:

        def full(*_: object) -> None:
            raise UsageError("no space left on device")

        monkeypatch.setattr(rehearsal, unrecorded, full)
    clock = FakeClock()
    tools = SimpleNamespace(hosts=None, clock=clock)
    session: Any = SimpleNamespace(tools=tools, cluster=SimpleNamespace(controllers=()), cluster_uid=lambda: "uid-1")
    session.telling, session.settings = lambda _: session, "settings"
    session.intended = lambda emulated: ["as intended", emulated]
    final: dict[tuple[str, ...], object] = {(str(["as intended", None]), str(OBSERVED), "None"): PLAN}
    session.builder = SimpleNamespace(plan=lambda intended, *more: final[str(intended), *map(str, more)])
    planned = SimpleNamespace(session=session, plan=planned_as, observed=OBSERVED, later=())
    monkeypatch.setattr(rehearsal, "open_session", lambda *_: nullcontext(session))
    monkeypatch.setattr(rehearsal, "cluster_lock", lock)
    # One hop, as if none followed.
    monkeypatch.setattr(rehearsal, "PlannedUpgrade", SimpleNamespace(of=lambda _, __, most: {1: planned}[most]))
    monkeypatch.setattr(rehearsal, "servers_of", lambda plan: SERVERS if plan is PLAN else None)
    monkeypatch.setattr(Rehearsal, "run", run)
    monkeypatch.setattr(
        rehearsal, "rehearsal_host", lambda settings, name: {"settings": Host(name, "10.0.0.9")}[settings]
    )
    told = notes if notes is not None else []
    found = rehearse(folder, PLAN.target, FrontEnd(told.append), on, here, audit_logs)
    recorded = [("bound", found.backup_taken or clock.now())]
    assert not locked and written == ([] if unrecorded else recorded)
    return found


def test_what_does_the_same_blocks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that is read differently is a warning."""
    changed = Difference("changed", "webs", "spec.a", 1, ("default/one",))
    for differences in ((), (changed,)):
        found = rehearsed(tmp_path, monkeypatch, *differences)
        assert not found.blocked
        found.refuse_if_blocked()


def test_objects_in_another_etcd_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their copy is not there, which the program on the host can't see: it must not look as if they were compared."""
    monkeypatch.setitem(SERVERS, "target", replace(SERVERS["target"], elsewhere=("webs.x.com",)))
    found = rehearsed(tmp_path, monkeypatch)
    assert found.blocked and [each.id for each in found.findings] == ["rehearsal.elsewhere"]
    assert "webs" not in str(found.redacted())


def test_clients_of_an_audit_log_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its requests are tried, without kubelets' and others' that a run replaces; a log without answers is unknown."""
    log = tmp_path / "audit.log"
    target = {"apiVersion": "v1", "resource": "pods", "subresource": "eviction"}
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "auditID": "1",
        "stage": "ResponseComplete",
    }
    event |= {"verb": "create", "userAgent": "drain/1", "objectRef": target, "user": {"username": "jane"}}
    own = {**event, "auditID": "2", "userAgent": "kubelet/v1", "user": {"username": "system:node:a"}}
    lines = [json.dumps({**each, "responseStatus": {"code": 201}}) for each in (event, own)]
    log.write_text("".join(f"{line}\n" for line in lines))
    sent: list[object] = []
    gone = Difference("client", "v1 pods/eviction create", "", 1, ())
    found = rehearsed(
        tmp_path, monkeypatch, gone, audit_logs=[log], asked=lambda asked: sent.extend(asked.requests.asked())
    )
    assert sent == [("v1", "pods/eviction", ["create"], [])] and found.blocked
    client, read = found.findings
    assert (client.id, client.diagnosis) == ("rehearsal.client", "drain/1 (user jane)")
    assert read.id == "audit-log.read" and found.redacted().findings[0].diagnosis == "client-1"
    log.write_text(f"{lines[0].replace('ResponseComplete', 'RequestReceived')}\n")
    found = rehearsed(tmp_path, monkeypatch, audit_logs=[log])
    assert found.blocked and [each.id for each in found.findings] == ["audit-log.empty"]
    log.write_text(f"{lines[0]}\n{lines[1][:90]}\n{lines[1]}\n")
    found = rehearsed(tmp_path, monkeypatch, audit_logs=[log])
    assert found.blocked and [each.id for each in found.findings] == ["audit-log.damaged", "audit-log.read"]
    assert str(log) in str(found.findings) and str(log.parent) not in str(found.redacted().findings)
    log.write_text("".join(f"{line}\n" for line in lines).replace("system:node:a", "system:node:elsewhere"))
    found = rehearsed(tmp_path, monkeypatch, audit_logs=[log])
    assert found.blocked and [each.id for each in found.findings] == ["audit-log.other-cluster", "audit-log.read"]
    assert "elsewhere" in str(found.findings) and "elsewhere" not in str(found.redacted().findings)


@pytest.mark.parametrize(("content", "why"), [(None, "not a regular file"), ("{}\n", "not an event")])
def test_what_is_no_audit_log_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, why: str
) -> None:
    """Nothing is asked of the cluster, and no controller does anything."""
    log = tmp_path / "audit.log"
    if content is not None:
        log.write_text(content)
    monkeypatch.setattr(rehearsal, "open_session", lambda *_: pytest.fail("the cluster was asked"))
    with pytest.raises(UsageError, match=why):
        rehearse(tmp_path, PLAN.target, FrontEnd(), audit_logs=[log])


def test_a_host_of_the_group_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the command names it; and a record is written as of a rehearsal on a controller."""
    rehearsed(tmp_path, monkeypatch, on="build-1")


@pytest.mark.parametrize("ahead", [timedelta(days=-9), timedelta(days=9)])
def test_a_record_is_as_old_as_its_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    """policy.rehearsal.maxAge is of the data. A backup of the future, by another clock, is of now at most."""
    monkeypatch.setattr(rehearsal, "unsuited", lambda: iter(()))
    taken = FakeClock().now() + ahead

    def run(asked: BackupRehearsal, servers: Mapping[str, Server]) -> tuple[Result, datetime]:
        assert (str(asked.backup), asked.cluster_uid, servers) == ("backup", "uid-1", SERVERS)
        assert asked.machine.host.name == "this machine"
        return Result("controller-1", (), {}, 1.0, 1, "this machine"), taken

    monkeypatch.setattr(BackupRehearsal, "run", run)
    found = rehearsed(tmp_path, monkeypatch, here="backup")
    assert found.backup_taken == min(taken, FakeClock().now())


def test_a_machine_that_can_not_rehearse_is_told_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the folder nor the backup: with each reason, and with what else is possible."""
    monkeypatch.setattr(rehearsal, "unsuited", lambda: iter(("it runs Darwin instead of Linux",)))
    monkeypatch.setattr(rehearsal, "open_session", lambda *_: pytest.fail("nothing may be read"))
    with pytest.raises(UsageError, match="--here: this machine can't rehearse: it runs Darwin") as caught:
        rehearse(tmp_path, PLAN.target, FrontEnd(), here="backup")  # type: ignore[arg-type]
    assert "--on HOST" in caught.value.remedy


def test_a_host_that_can_not_be_used_is_refused_before_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inventory decides; nothing is asked of the cluster."""
    monkeypatch.setattr(rehearsal, "open_session", lambda *_: nullcontext(SimpleNamespace(settings="settings")))
    monkeypatch.setattr(rehearsal, "cluster_lock", lambda *_, **__: nullcontext())

    def refuse(*_: object) -> None:
        raise UsageError("--on other: no host other is in the group 'rehearsal'")

    monkeypatch.setattr(rehearsal, "rehearsal_host", refuse)
    with pytest.raises(UsageError, match="no host other"):
        rehearse(tmp_path, PLAN.target, FrontEnd(), "other")


def test_what_the_target_refuses_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the versions, and what is refused."""
    found = rehearsed(tmp_path, monkeypatch, Difference("gone", "webs", "", 1, ("default/one",)))
    assert [each.id for each in found.findings] == ["rehearsal.gone"]
    with pytest.raises(Blocked, match=r"v1\.37\.1 treats this cluster's data differently than v1\.36\.3"):
        found.refuse_if_blocked()


def test_what_runs_in_the_end_is_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that emulates the old minor does what that one does: such a rehearsal would find nothing. The emulation
    is named as not tried.
    """
    found = rehearsed(tmp_path, monkeypatch, planned_as=EMULATING)
    assert found.emulated_first == (1, 36) and found.target_emulates is None
    assert rehearsed(tmp_path, monkeypatch).emulated_first is None


@pytest.mark.parametrize("failure", [HostError("controller-1: no space", remedy="Free some."), HostUnreachable("gone")])
def test_what_fails_on_a_controller_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: HostError) -> None:
    """The exit code is that of a check, as nothing was changed, and not that of manual action; message and remedy are
    the controller's.
    """
    with pytest.raises(HostError) as caught:
        rehearsed(tmp_path, monkeypatch, failure=failure)
    assert caught.value.exit_code == Blocked.exit_code
    assert (caught.value.message, caught.value.remedy) == (failure.message, failure.remedy)
    assert isinstance(caught.value, HostUnreachable if isinstance(failure, HostUnreachable) else RehearsalFailed)


@pytest.mark.parametrize("which", ["bind_rehearsal", "write_record"])
def test_findings_are_told_even_if_they_can_not_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """The disk of the folder may be full after half an hour. What the target refuses must be known all the same, and an
    earlier record, which may have no error, must not be used in its place.
    """
    gone = Difference("gone", "webs", "", 1, ("default/one",))
    notes: list[str] = []
    earlier = tmp_path / "runs/rehearsal.json"
    earlier.parent.mkdir()
    earlier.write_text("{}")
    found = rehearsed(tmp_path, monkeypatch, gone, unrecorded=which, notes=notes)
    assert found.blocked and [each.id for each in found.findings] == ["rehearsal.gone"]
    assert "No record of this rehearsal" in notes[-1] and "no space left" in notes[-1]
    assert not earlier.exists()
