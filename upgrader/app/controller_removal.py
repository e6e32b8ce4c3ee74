"""`upgrader controllers remove`: a controller leaves the control plane of an adopted cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from upgrader.adopt.etcd_membership import MemberToRemove, etcd_servers, member_to_remove
from upgrader.adopt.leaving import (
    check_etcd_servers,
    control_plane_endpoint,
    controller_to_remove,
    own_addresses,
    registered_addresses,
    server_at,
    why_dead,
    why_silent,
)
from upgrader.adopt.left_out_pipeline import Return
from upgrader.adopt.names_of_one_controller import check_endpoints, host_of
from upgrader.adopt.node_addresses import node_addresses
from upgrader.adopt.node_withdrawal import check_chosen_by_label
from upgrader.adopt.removal_pipeline import Removal
from upgrader.app.as_installed import observe_installed
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.finalize import refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.left_out import refuse_not_back
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.unchanged import AGAIN, check_unchanged
from upgrader.app.values_edit import edited_counts
from upgrader.app.wiring import Session, open_session
from upgrader.config.kubeconfig_context import server_addresses
from upgrader.errors import Blocked
from upgrader.gates.node_health import is_unreachable
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP
from upgrader.model.left_out import LeftOut
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import ReleaseSettings
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.collect import examine_all
from upgrader.pipeline import Pipeline
from upgrader.ports import Kind
from upgrader.preflight.all_checks import CHECKS, run_checks
from upgrader.preflight.down_controllers import left_out_of, serves
from upgrader.preflight.refusal import refuse_if_blocked

__all__ = ["LeavingController", "ProposedRemoval", "leaving_controller"]

_CHECKS = tuple((name, check) for name, check in CHECKS if name in ("access", "hosts", "helm", "webhooks"))
_NODES, _CONFIG_MAPS = Kind("v1", "nodes", namespaced=False), Kind("v1", "configmaps")
_PORT = 6443
_LEAST = 2
"""Controllers that the releases may count while others are left out: one alone is another kind of cluster."""


@dataclass(frozen=True)
class LeavingController:
    """A controller that can be removed, and the values files that count the others. The folder is locked."""

    folder: Path
    front_end: FrontEnd
    host: Host
    dead: str
    """Why it is taken for dead; "" where it answers."""
    staying: Cluster
    member: MemberToRemove
    own: frozenset[str]
    server: str
    version: KubernetesVersion
    files: Mapping[Path, str]
    findings: tuple[Finding, ...]
    """Of the controllers that stay."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    """Those of them that are left out, and stay so."""
    returning: Host | None = None
    """One of them that was left out, and takes part again instead of the dead one."""

    def check_allowed(self) -> None:
        """Raises Blocked where a check forbids it."""
        refuse_if_blocked("the removal; nothing was changed", self.findings)

    @contextmanager
    def propose(self, *, take_over: bool) -> Iterator[ProposedRemoval]:
        """Lock the cluster, and build the steps from the values files as they are."""
        with open_session(self.folder, self.version) as opened:
            # As it was decided on, whatever the inventory says by now.
            session = replace(opened, cluster=self.staying).without(self.left_out)
            with cluster_lock(session, self.front_end, take_over=take_over) as held:
                check_unchanged(session, self.version, without=self.host.name if self.dead else "")
                member = self._member_now(session)
                health = session.read_health_before()
                build = session.builder.since(health).context
                back = None
                if self.returning is not None:
                    refuse_not_back(session, self.returning)
                    before = session.without({self.returning.name: LeftOut("out", None)}).builder.since(health).context
                    back = Return(self.returning, session.tools, before)
                removal = Removal(
                    self.host, bool(self.dead), self.staying, session.tools, member, self.own, self.server, back
                )
                pipeline = removal.pipeline(observe_installed(session).plans(session), build)
                yield ProposedRemoval(pipeline, self.findings, session, self.front_end, held)

    def _member_now(self, session: Session) -> MemberToRemove:
        """As `member`, with the leader of now. Raises Blocked where the machine, or etcd, is no longer as it was."""
        cluster = replace(self.staying, controllers=(*self.staying.controllers, self.host))
        state = _State.of(replace(session, cluster=cluster), self.host, said=bool(self.dead))
        if bool(state.dead) != bool(self.dead):
            raise Blocked(
                f"{self.host.name} no longer answers: {state.dead}; the cluster was not changed",
                remedy=AGAIN,
            )
        before, now = self.member, state.member
        if (before.member, before.left, bool(before.ask)) != (now.member, now.left, bool(now.ask)):
            raise Blocked(
                f"etcd's members changed in the meantime: without {self.host.name}, {now.left} would be left instead "
                f"of {before.left}; the cluster was not changed",
                remedy=AGAIN,
            )
        return now


@dataclass(frozen=True)
class ProposedRemoval:
    """The steps, and the checks' findings; the cluster is locked."""

    pipeline: Pipeline
    findings: tuple[Finding, ...]
    session: Session
    front_end: FrontEnd
    held: HeldLock

    def execute(self) -> FinishedRun:
        """Execute it. Half a removal is finished by the same command, and never undone: etcd's member is gone."""
        return execute_run(
            self.session,
            self.front_end,
            NewRun(RunKind.REMOVE_CONTROLLER, self.pipeline, on_failure="stop", findings=self.findings),
            held=self.held,
        )


@dataclass(frozen=True)
class _State:
    """The leaving controller as it is now. `dead`: why it is taken for dead; "" for one that answers."""

    dead: str
    own: frozenset[str]
    member: MemberToRemove

    @classmethod
    def of(cls, session: Session, host: Host, *, said: bool) -> _State:
        """Raises Blocked where it may not leave."""
        tools = session.tools
        node = tools.kube.get(_NODES, host.name)
        examined = examine_all(tools.hosts, session.cluster)
        silent = why_silent(tools.hosts, next(each for each in examined if each.host.name == host.name))
        registered = registered_addresses(node)
        serving = serves(tools.kube, {host.address, *registered})
        dead = why_dead(host.name, node, silent, serving=serving, said=said)
        internal = next(iter(registered), host.address)
        member = member_to_remove(host.name, internal, etcd_servers(examined))
        beside = next(each for each in session.cluster.controllers if each != host)
        return cls(dead, own_addresses(tools.hosts, host, node, beside=beside, dead=bool(dead)), member)


@contextmanager
def leaving_controller(folder: Path, name: str, front_end: FrontEnd, *, dead: bool) -> Iterator[LeavingController]:
    """Lock the folder, and find out whether a controller can be removed. Changes nothing.

    `dead`: the operator says that its machine is gone. Raises UsageError, or Blocked with the reason.
    """
    with locked_folder(folder):
        with front_end.busy(), open_session(folder) as session:
            found = _found(session.telling(front_end.doing), name, front_end, dead=dead)
        yield found


def _found(session: Session, name: str, front_end: FrontEnd, *, dead: bool) -> LeavingController:
    tools, cluster = session.tools, session.cluster
    host = controller_to_remove(cluster, name)
    staying = replace(cluster, controllers=tuple(each for each in cluster.controllers if each.name != name))
    check_chosen_by_label(tools.kube)
    refuse_unended(replace(session, cluster=staying).find_runs(), without=name if dead else "")
    marks = left_out_of(tools.kube, staying)
    if marks and not dead:
        raise Blocked(
            f"controller {first_few(sorted(marks))} is left out of runs; nothing was changed",
            remedy=f"First bring it back (upgrader resume), or remove it. If {name} is dead, add --dead.",
        )
    returning = _returning(replace(session, cluster=staying), marks)
    left_out = {} if returning else marks
    if left_out and len(staying.controllers) - len(left_out) < _LEAST:
        raise Blocked(
            f"too few controllers would remain without {name}, because {first_few(sorted(left_out))} is left out of "
            "runs; nothing was changed",
            remedy=f"First bring {first_few(sorted(left_out))} back: without it, etcd has no majority.",
        )
    remaining = replace(session, cluster=staying).without(left_out)
    installed = observe_installed(remaining)
    version = installed.version
    state = _State.of(session, host, said=dead)
    addresses = node_addresses(tools.kube, staying)
    api = _api_values(session)
    port = int(api.get("port", _PORT))
    endpoint = control_plane_endpoint(tools.kube.get(_CONFIG_MAPS, KUBEADM_CONFIG_MAP, "kube-system"), port)
    names = {*server_addresses(cluster.kubeconfig, cluster.context), host_of(endpoint)}
    check_etcd_servers(name, state.own, (api.get("etcd") or {}).get("servers") or ())
    check_endpoints(tools.hosts, remaining.cluster.controllers[0], name, state.own, names)
    server = f"https://{endpoint}" if endpoint else server_at(addresses[0], port)
    files = edited_counts(session.settings, addresses)
    context = remaining.at(version).preflight_context(installed.observed)
    findings = run_checks(context, _CHECKS, session.doing)
    return LeavingController(
        session.settings.folder,
        front_end,
        host,
        state.dead,
        staying,
        state.member,
        state.own,
        server,
        version,
        files,
        findings,
        left_out,
        returning,
    )


def _returning(session: Session, marks: Mapping[str, LeftOut]) -> Host | None:
    """The controller that was left out, where it is back: by now, too few would be left without it."""
    host = next((each for each in session.cluster.controllers if each.name in marks), None)
    node = session.tools.kube.get(_NODES, host.name) if host else None
    return host if node is not None and not is_unreachable(node) else None


def _api_values(session: Session) -> Mapping[str, Any]:
    items = (item for item in session.settings.pipeline if isinstance(item, ReleaseSettings))
    return next((item.values for item in items if item.name == "kube-apiserver"), {})
