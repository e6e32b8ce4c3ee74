"""`upgrader rehearse`: the target's kube-apiserver on a copy of this cluster's data, beside the version that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import cluster_lock, locked_folder
from upgrader.app.rehearsal_records import bind_rehearsal, folder_inputs, forget_record, write_record
from upgrader.app.upgrade import PlannedUpgrade
from upgrader.app.wiring import Session, open_session, own_host
from upgrader.config.rehearsal_hosts import rehearsal_host
from upgrader.errors import HostError, HostUnreachable, RehearsalFailed, UsageError
from upgrader.model.api_lifecycle import Minor
from upgrader.model.cluster import Host
from upgrader.model.emulation import emulated_by
from upgrader.model.finding import Finding
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.rehearsal.ready import unsuited
from upgrader.preflight.all_checks import blocking
from upgrader.preflight.audit_log import DAMAGED, OTHER_CLUSTER, check_log, foreign_clients
from upgrader.preflight.audit_log_files import read_clients
from upgrader.preflight.refusal import refusal
from upgrader.steps.backup.verify import BackupFile
from upgrader.steps.plan import Plan
from upgrader.steps.rehearsal.client_requests import NO_REQUESTS, ClientRequests
from upgrader.steps.rehearsal.differences import findings_of
from upgrader.steps.rehearsal.from_backup import BackupRehearsal
from upgrader.steps.rehearsal.redacted import redacted
from upgrader.steps.rehearsal.rehearsal import Rehearsal
from upgrader.steps.rehearsal.rehearsal_host import RehearsalHost
from upgrader.steps.rehearsal.result import Result
from upgrader.steps.rehearsal.servers import Server, kept_elsewhere, servers_of

__all__ = ["Rehearsed", "rehearse"]

_UNNAMED = {
    OTHER_CLUSTER: "This cluster has none of the nodes whose kubelets are in the audit log.",
    DAMAGED: "It is unknown which clients sent these requests.",
}
"""What findings of an audit log say without names."""


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal of the first hop to a target."""

    current: KubernetesVersion
    target: KubernetesVersion
    result: Result
    findings: tuple[Finding, ...]
    current_emulates: Minor | None = None
    """The older minor that the running version emulated in the rehearsal, as it does in the cluster; None: its own."""
    target_emulates: Minor | None = None
    """The same of the target; only values set it, as a rehearsal is of what `upgrader finalize` leaves."""
    emulated_first: Minor | None = None
    """The minor that a run emulates until `upgrader finalize`, which was not rehearsed; None: it emulates none."""
    backup_taken: datetime | None = None
    """When the backup was taken that was rehearsed; None: the data was of now."""

    @property
    def blocked(self) -> bool:
        """Whether the target is known to break something, or something could not be compared."""
        return blocking(self.findings)

    def redacted(self) -> Rehearsed:
        """The same without names that users chose: of objects, releases, policies, custom resources and hosts."""
        result, count = redacted(self.result), len(self.result.differences)
        # What is left says from when an audit log is, in which files lines are damaged, and whose kubelets sent them.
        left = (
            replace(each, diagnosis=_UNNAMED[each.id]) if each.id in _UNNAMED else each
            for each in self.findings[count:]
        )
        return replace(self, result=result, findings=(*findings_of(result.differences), *left))

    def refuse_if_blocked(self, *, seen: bool = False) -> None:
        """Raise Blocked where it is. `seen`: the findings are still on the screen."""
        if self.blocked:
            what = f"{self.target} treats this cluster's data differently than {self.current}; nothing was changed"
            raise refusal(what, self.findings, seen=seen)


def rehearse(
    folder: Path,
    target: KubernetesVersion | None,
    front_end: FrontEnd,
    on: str | None = None,
    here: BackupFile | None = None,
    audit_logs: Sequence[Path] = (),
) -> Rehearsed:
    """Rehearse it. Changes nothing in the cluster. `target` None: the file's. `on`: the name of the host of group
    `rehearsal` that compares; None: the controller that has the data. `here`: a backup, which is compared on this
    machine. `audit_logs`: files and folders, whose clients' requests are tried.

    Locks the cluster, as a backup and a rehearsal use the same folder on the controllers. Raises Locked,
    HostUnreachable, RehearsalFailed, BackupRefused, and UsageError where there is nothing to rehearse, no such host, or
    where this machine can't.
    """
    if here is not None:
        _refuse_unsuited()
    log = read_clients(audit_logs, front_end.doing) if audit_logs else None
    requests = ClientRequests(foreign_clients(log)) if log else NO_REQUESTS
    with (
        front_end.busy(),
        _without_effect(),
        open_session(folder, target) as opened,
        locked_folder(folder),
        cluster_lock(opened, front_end, take_over=False),
    ):
        host = None if on is None else rehearsal_host(opened.settings, on)
        planned = PlannedUpgrade.of(opened.telling(front_end.doing), None, 1)
        session = planned.session
        plan = _final(planned)
        servers = servers_of(plan)
        # Before it starts: what is changed meanwhile was not rehearsed.
        try:
            digest, bound = folder_inputs(folder), bind_rehearsal(session, planned.observed, planned.plan)
        except UsageError as error:
            digest, bound = "", None
            front_end.notify(f"No record of this rehearsal will be written: {error.message}")
        result, as_of = _found(session, servers, host, here, requests, front_end)
        differences = (*map(requests.named, result.differences), *kept_elsewhere(servers))
        result = replace(result, differences=differences)
        findings = (*findings_of(result.differences), *(check_log(log, planned.observed.nodes) if log else ()))
        try:
            if bound is not None:
                write_record(session, bound, digest, result.controller, findings, as_of)
        except UsageError as error:  # what was found is still to be told
            bound = None
            front_end.notify(f"No record of this rehearsal was written: {error.message}")
        # An earlier one doesn't have these findings.
        if bound is None and (remains := forget_record(folder)):
            front_end.notify(f"No record of this rehearsal was written.{remains}")
        return Rehearsed(
            plan.current,
            plan.target,
            result,
            findings,
            current_emulates=emulated_by(servers["current"].flags),
            target_emulates=emulated_by(servers["target"].flags),
            emulated_first=planned.plan.emulated,
            backup_taken=as_of if here else None,
        )


def _found(
    session: Session,
    servers: Mapping[str, Server],
    host: Host | None,
    here: BackupFile | None,
    requests: ClientRequests,
    front_end: FrontEnd,
) -> tuple[Result, datetime]:
    """What is found, and of when the data is: as long as that is the record of use."""
    hosts, controllers, now = session.tools.hosts, session.cluster.controllers, session.tools.clock.now()
    if here is None:
        return Rehearsal(hosts, controllers, host, requests).run(servers, front_end.notify), now
    machine = RehearsalHost(*own_host(), front_end.notify, requests=requests)
    rehearsal = BackupRehearsal(here, session.cluster_uid(), hosts, controllers, machine, front_end.notify)
    result, taken = rehearsal.run(servers)
    return result, min(taken, now)


def _refuse_unsuited() -> None:
    if reasons := list(unsuited()):
        raise UsageError(
            f"--here: this machine can't rehearse: {'; '.join(reasons)}",
            remedy="Run upgrader as root on a Linux machine with systemd, or rehearse on one: --on HOST. Nothing was "
            "read from the backup.",
        )


@contextmanager
def _without_effect() -> Iterator[None]:
    """A command that failed on a controller leaves the cluster as it is: no one has to look after it."""
    try:
        yield
    except HostUnreachable:
        raise
    except HostError as error:
        raise RehearsalFailed(error.message, remedy=error.remedy) from error


def _final(planned: PlannedUpgrade) -> Plan:
    """What runs in the end: while it emulates the old minor, the target does what that one does."""
    if planned.plan.emulated is None:
        return planned.plan
    return planned.session.builder.plan(planned.session.intended(None), planned.observed, None)
