"""`upgrader adopt`: from kubeadm's static pods into the charts, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upgrader.adopt.added_flags import added_flags
from upgrader.adopt.addon_originals import Originals
from upgrader.adopt.addon_parts import left_alone
from upgrader.adopt.derive import Derived, derive_values
from upgrader.adopt.facts import KubeadmFacts, read_controllers, read_facts
from upgrader.adopt.leaders_api import OwnServer
from upgrader.adopt.node_addresses import node_addresses
from upgrader.adopt.pipelines import adopt_pipeline, adopting, needs_port_sharing, undo_pipeline
from upgrader.adopt.referred_files import with_single_files
from upgrader.adopt.running_addons import addons_in
from upgrader.adopt.static_pod_checks import check_machines, check_pods, check_with_values, leaders_kubeconfigs
from upgrader.adopt.undo_differences import check_undo, images_to_restore, released_in
from upgrader.adopt.values_files import changed_values, missing_gitignore
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.finalize import refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.wiring import Session, open_session
from upgrader.built_in_files import charts_folder
from upgrader.config.kubeconfig_context import server_addresses
from upgrader.errors import Blocked, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.gate_settings import WorkloadGate
from upgrader.model.health_before import HealthBefore
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import BUILT_IN_CHARTS, OnFailure, ReleaseSettings
from upgrader.model.version import OLDEST, KubernetesVersion, too_old
from upgrader.pipeline import Pipeline
from upgrader.ports import Kind
from upgrader.preflight.all_checks import CHECKS, run_checks
from upgrader.preflight.refusal import refuse_if_blocked
from upgrader.steps.release.kind import ReleaseKind

__all__ = ["ADOPTED", "NOT_ADOPTED", "Adoption", "ProposedAdoption", "adoption", "is_adopted", "propose_undo"]

ADOPTED = "Nothing to do: this control plane is adopted, and its releases match the values."
NOT_ADOPTED = (
    f"Nothing to undo: no release of {', '.join(BUILT_IN_CHARTS)} is installed, so this is a kubeadm control plane."
)
_BEFORE_ADOPTION = (
    "access",
    "hosts",
    "nodes",
    "kubelets",
    "critical-pods",
    "webhooks",
    "helm",
    "memory",
    "certificates",
)
_CHECKS = tuple((name, check) for name, check in CHECKS if name in _BEFORE_ADOPTION)
_CHECKS_OF_PLAN = tuple((name, check) for name, check in CHECKS if name == "pull-secrets")
"""They need to know what the adoption installs."""
_BEFORE_UNDO = ("access", "hosts", "nodes", "webhooks", "helm")
_CHECKS_OF_UNDO = tuple((name, check) for name, check in CHECKS if name in _BEFORE_UNDO)


@dataclass(frozen=True)
class ProposedAdoption:
    """The steps of an adoption or of its undo, and the checks' findings; the cluster is locked."""

    pipeline: Pipeline
    findings: tuple[Finding, ...]
    kind: RunKind
    session: Session
    front_end: FrontEnd
    held: HeldLock
    health_before: HealthBefore | None = None
    needless: str = ""
    """Why nothing is left to do; "" where something is."""

    @property
    def _what(self) -> str:
        return "the undo of the adoption" if self.kind is RunKind.ADOPT_UNDO else "the adoption"

    def check_allowed(self) -> None:
        """Raises Blocked where a check forbids it."""
        refuse_if_blocked(f"{self._what}; the cluster was not changed", self.findings)

    def execute(self) -> FinishedRun:
        """Execute it."""
        self.check_allowed()
        # Every step of the undo leaves a working control plane, and none can be undone without adopting again.
        undo = self.kind is RunKind.ADOPT_UNDO
        on_failure: OnFailure | None = "stop" if undo else None
        return execute_run(
            self.session,
            self.front_end,
            NewRun(
                self.kind,
                self.pipeline,
                on_failure=on_failure,
                health_before=self.health_before,
                findings=self.findings,
                compare=undo,
            ),
            held=self.held,
        )


@dataclass(frozen=True)
class Adoption:
    """What kubeadm's own files contain, and the values files derived from them. The folder is locked."""

    folder: Path
    front_end: FrontEnd
    facts: KubeadmFacts
    derived: Derived
    version: KubernetesVersion
    kubeconfigs: tuple[OwnServer, ...] = ()
    """Those that the charts' pods need changed."""

    @property
    def restarts(self) -> tuple[Host, ...]:
        """The controllers whose kube-apiserver must restart once, to share its port."""
        return needs_port_sharing(self.facts.controllers)

    def changed_files(self) -> dict[Path, str]:
        """The values files whose content would change, and a missing .gitignore, with their new text."""
        return {**changed_values(self.folder, self.derived.values), **missing_gitignore(self.folder)}

    @contextmanager
    def propose(self, *, take_over: bool) -> Iterator[ProposedAdoption]:
        """Lock the cluster, check, and build the steps from the values files as they are now."""
        with (
            self.front_end.busy(),
            open_session(self.folder, self.version) as opened,
            cluster_lock(opened, self.front_end, take_over=take_over) as held,
        ):
            session = opened.telling(self.front_end.doing)
            observed = session.observe()
            context, plan = session.preflight_context(observed), session.plan(observed)
            findings = run_checks(context, _CHECKS, session.doing)
            findings += run_checks(replace(context, plan=plan), _CHECKS_OF_PLAN, session.doing)
            health_before = session.read_health_before()
            cluster, tools, builder = session.cluster, session.tools, session.builder.since(health_before)
            releases = ReleaseKind(builder.context, adopting(cluster, tools, observed.server, self.facts))
            charts = builder.forward(plan, releases)
            always = builder.gates.of_cluster()
            pipeline = adopt_pipeline(charts, self.facts, cluster, tools, observed.server, always, self.kubeconfigs)
            needless = ADOPTED if is_adopted(self.facts, charts) else ""
            session.doing("")
            yield ProposedAdoption(
                pipeline, findings, RunKind.ADOPT, session, self.front_end, held, health_before, needless
            )


def is_adopted(facts: KubeadmFacts, charts: Pipeline) -> bool:
    """Whether every static pod was retired, and the releases are as their charts and values say."""
    return not any(each.active for each in facts.controllers) and not any(item.changes for item in charts.steps)


@contextmanager
def adoption(folder: Path, front_end: FrontEnd) -> Iterator[Adoption]:
    """Lock the folder, and derive the charts' values. Changes nothing. Raises Blocked for another pipeline."""
    with locked_folder(folder):
        with front_end.busy(), open_session(folder) as opened:
            session = opened.telling(front_end.doing)
            version = session.observe().server
            _check_supported(version)
            session.doing("reading kubeadm's files on the controllers…")
            cluster, tools = session.cluster, session.tools
            servers = server_addresses(cluster.kubeconfig, cluster.context)
            own = _own_values(session)
            kubernetes = own.get("kubernetes", {})
            check_machines(tools.kube, tools.hosts, cluster.controllers, own.get("pod-checkpointer", {}))
            controllers = read_controllers(tools.hosts, cluster)
            check_pods(tools.kube, tools.hosts, controllers)
            facts = read_facts(tools.kube, tools.hosts, controllers, servers, left_alone(kubernetes))
            facts = with_single_files(tools.hosts, facts, facts.certificates)
            addresses = node_addresses(tools.kube, cluster)
            kubeconfigs = leaders_kubeconfigs(tools.hosts, facts.controllers, addresses, kubernetes)
            session.doing("rendering the charts, and comparing flags…")
            derived = derive_values(facts, addresses, own, tools.helm, charts_folder())
            api_server = derived.values["kube-apiserver"]
            check_with_values(tools.hosts, facts.controllers, facts.certificates, derived.changes, api_server)
        yield Adoption(folder, front_end, facts, derived, version, kubeconfigs)


@contextmanager
def propose_undo(folder: Path, front_end: FrontEnd, *, take_over: bool) -> Iterator[ProposedAdoption]:
    """The steps back to kubeadm's own static pods, and the checks' findings.

    Raises Blocked where a run has no end yet, or where kubeadm's manifests lack what the releases have got since.
    """
    with (
        locked_folder(folder),
        front_end.busy(),
        open_session(folder) as opened,
        cluster_lock(opened, front_end, take_over=take_over) as held,
    ):
        session = opened.telling(front_end.doing)
        health_before = session.read_health_before()
        gates, policy = session.builder.since(health_before).gates, session.settings.gates
        addons = tuple(
            gates.of_workload(gate)
            for gate in (
                WorkloadGate("daemonset", "kube-system", "kube-proxy", policy),
                WorkloadGate("deployment", "kube-system", "coredns", policy),
            )
            # What the chart left alone may be something else, or nothing.
            if session.tools.kube.get(Kind("apps/v1", f"{gate.kind}s"), gate.name, gate.namespace)
        )
        observed = session.observe()
        version, helm = observed.server, session.tools.helm
        installed = [release for release in BUILT_IN_CHARTS if helm.history(release, "kube-system")]
        manifests = [helm.manifest(release, "kube-system") for release in installed]
        released = released_in(manifests)
        findings: tuple[Finding, ...] = ()
        if installed:
            refuse_unended(session.find_runs())
            controllers = read_controllers(session.tools.hosts, session.cluster)
            added = added_flags(session.tools.kube, helm, controllers, version, charts_folder())
            check_undo(controllers, released, added)
            context = session.at(version).preflight_context(observed)
            # No node is upgraded, so what `nodes.leftAlone` selects stands in the way of nothing.
            findings = run_checks(replace(context, node_settings=None), _CHECKS_OF_UNDO, session.doing)
        _check_originals(session)
        pipeline = undo_pipeline(
            session.cluster,
            session.tools,
            version,
            gates.of_controllers(),
            addons,
            images_to_restore(released),
            addons_in(manifests),
        )
        needless = "" if installed else NOT_ADOPTED
        session.doing("")
        yield ProposedAdoption(
            pipeline, findings, RunKind.ADOPT_UNDO, session, front_end, held, health_before, needless
        )


def _check_originals(session: Session) -> None:
    """Before the first step, as none of an undo can be undone: what kubeadm's objects were is known, and no other's."""
    tools = session.tools
    if tools.helm.history("kubernetes", "kube-system"):
        try:
            Originals(tools.kube, tools.hosts, session.cluster.controllers).read()
        except StepFailed as error:
            raise Blocked(f"{error.message}; nothing was changed", remedy=error.remedy) from error


def _check_supported(version: KubernetesVersion) -> None:
    """Before anything is read; Helm's error would be about the built-in charts. Raises Blocked."""
    if why := too_old(version):
        raise Blocked(
            f"the control plane runs Kubernetes {version}, which {why}; nothing was changed",
            remedy=f"Upgrade the cluster to {OLDEST.without_patch} or later first, one minor version at a time, with "
            "kubeadm or the tool that installed it. Then adopt it.",
        )


def _own_values(session: Session) -> Mapping[str, Mapping[str, Any]]:
    """Release → what its values files have already. Raises Blocked for a pipeline that doesn't begin with ours."""
    releases = [item for item in session.settings.pipeline if isinstance(item, ReleaseSettings)]
    if tuple(item.name for item in releases)[: len(BUILT_IN_CHARTS)] != BUILT_IN_CHARTS:
        raise Blocked(
            f"the pipeline must begin with {', '.join(BUILT_IN_CHARTS)} to adopt a control plane",
            remedy="Remove `pipeline` from upgrader.yaml until the adoption is done.",
        )
    return {item.name: item.values for item in releases}
