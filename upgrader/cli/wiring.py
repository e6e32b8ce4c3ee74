"""The composition root: the only place that knows which adapter stands behind which port."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.adapters.clock import SystemClock
from upgrader.adapters.helm import HelmAdapter
from upgrader.adapters.hosts import SshHosts
from upgrader.adapters.kube import KubeAdapter
from upgrader.adapters.playbooks import AnsiblePlaybooks
from upgrader.assemble import Tools, intended, release_specs
from upgrader.config.charts import charts_folder
from upgrader.config.inventory import load_cluster
from upgrader.config.kubeconfig import check_context
from upgrader.config.settings import Overrides, load_settings
from upgrader.engine.anywhere import Found, find_runs
from upgrader.engine.copies import ClusterCopies, ControllerCopies, LocalCopies
from upgrader.engine.mirror import Mirror
from upgrader.model.cluster import Cluster
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.plan import Plan, PlannedPlaybook, PlannedRelease
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion
from upgrader.observe import observe
from upgrader.planner import IntendedRelease, plan_run
from upgrader.ports import Hosts, Kube, Recovery
from upgrader.preflight.checks import PreflightContext, run_checks
from upgrader.recover.diagnosis.look import Look
from upgrader.recover.pipeline import RecoverTools
from upgrader.recover.restoring.api_recovery import ApiRecovery

__all__ = ["Session", "open_kube", "open_session"]

_BRIEF_SECONDS = 3.0


@dataclass(frozen=True)
class Session:
    """One cluster folder, opened: its settings, its machines and the tools to work on them."""

    settings: Settings
    cluster: Cluster
    tools: Tools
    hosts: Hosts
    brief_kube: Kube
    """The same API with a short deadline, for what must not hold a run up."""

    def at(self, target: KubernetesVersion) -> Session:
        """The same with another target, whatever upgrader.yaml says."""
        return replace(self, settings=replace(self.settings, kubernetes_version=target))

    def observe(self) -> Observed:
        """Look at the cluster as the pipeline needs it."""
        target = self.settings.kubernetes_version
        specs = release_specs(self.settings, charts_folder(), target)
        return observe(self.tools.kube, self.tools.helm, specs)

    def plan(self, observed: Observed) -> Plan:
        """What a run would change."""
        return plan_run(self.intended(), observed, self.settings.kubernetes_version)

    def intended(self) -> tuple[IntendedRelease | PlannedPlaybook, ...]:
        """The pipeline as it should be at the target."""
        return tuple(intended(self.settings, charts_folder(), self.settings.kubernetes_version, self.tools.helm))

    def preflight(self, observed: Observed, plan: Plan) -> tuple[Finding, ...]:
        """Every check's findings."""
        changing = frozenset(
            step.name for step in plan.steps if isinstance(step, PlannedRelease) and step.action != "unchanged"
        )
        return run_checks(replace(self.preflight_context(observed), changing=changing))

    def mirror(self, journal: Path, run: str, note: Callable[[str], None]) -> Mirror:
        """What copies a run's journal to where it outlives this machine; `note` takes what an operator should know."""
        return Mirror(
            journal,
            run,
            cluster=ClusterCopies(self.brief_kube),
            controllers=self._controllers(),
            clock=self.tools.clock,
            keep=self.settings.keep_runs,
            note=note,
        )

    def find_runs(self) -> Found:
        """All runs of this cluster that are known anywhere: here, in the cluster, on its controllers."""
        here = LocalCopies(self.settings.folder / "runs")
        return find_runs((here, ClusterCopies(self.brief_kube), *self._controllers()))

    def _controllers(self) -> tuple[ControllerCopies, ...]:
        return tuple(ControllerCopies(self.hosts, host) for host in self.cluster.controllers)

    def recovery(self) -> Recovery:
        """The way to an API that doesn't come back by itself."""
        return self.recover_tools().recovery

    def recover_tools(self, only: Sequence[str] = ()) -> RecoverTools:
        """What a recovery works through; `only` names the controllers that it may touch, () all of them."""
        tools = self.tools
        look = Look(self.hosts, tools.kube, self.cluster, only)
        return RecoverTools(
            hosts=self.hosts,
            helm=tools.helm,
            kube=tools.kube,
            clock=tools.clock,
            cluster=self.cluster,
            look=look,
            recovery=ApiRecovery(look, hosts=self.hosts, kube=tools.kube, clock=tools.clock),
            holding=self.settings.gates,
            helm_timeout_seconds=self.settings.helm_timeout_seconds,
        )

    def preflight_context(self, observed: Observed) -> PreflightContext:
        """What checks look at."""
        return PreflightContext(
            kube=self.tools.kube,
            hosts=self.hosts,
            helm=self.tools.helm,
            clock=self.tools.clock,
            cluster=self.cluster,
            target=self.settings.kubernetes_version,
            observed=observed,
            helm_timeout_seconds=self.settings.helm_timeout_seconds,
        )


@contextmanager
def open_kube(folder: Path, timeout_seconds: float) -> Iterator[Kube]:
    """The API of a cluster folder's cluster, and nothing else; each call ends after that time."""
    settings = load_settings(folder, os.environ)
    kube = KubeAdapter(
        settings.kubeconfig, check_context(settings.kubeconfig, settings.context), timeout_seconds=timeout_seconds
    )
    try:
        yield kube
    finally:
        kube.close()


@contextmanager
def open_session(folder: Path, to: str | None = None) -> Iterator[Session]:
    """Read a cluster folder and connect; raises UsageError for whatever is wrong with it, before any connection."""
    version = KubernetesVersion.parse(to) if to else None
    settings = load_settings(folder, os.environ, Overrides(kubernetes_version=version))
    context = check_context(settings.kubeconfig, settings.context)
    with ExitStack() as stack:
        # Ansible reads its inventory in a process of its own: meanwhile the other tools are made ready.
        cluster = stack.enter_context(ThreadPoolExecutor(1)).submit(load_cluster, settings, context)
        helm = HelmAdapter(settings.kubeconfig, context)
        stack.callback(helm.close)
        hosts = SshHosts()
        stack.callback(hosts.close)
        kube = KubeAdapter(settings.kubeconfig, context)
        stack.callback(kube.close)
        brief_kube = KubeAdapter(settings.kubeconfig, context, timeout_seconds=_BRIEF_SECONDS)
        stack.callback(brief_kube.close)
        tools = Tools(helm, kube, AnsiblePlaybooks(), SystemClock(), hosts)
        yield Session(settings, cluster.result(), tools, hosts, brief_kube)
