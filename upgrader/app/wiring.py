"""The composition root: the only place that knows which adapter implements which port.

What only a session, or one of its commands, needs is imported where that is made: `plan --offline` opens none, and a
plan neither recovers nor publishes anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from upgrader.adapters.skopeo import copy_image, push_archive
from upgrader.built_in_files import charts_folder, playbooks_folder
from upgrader.config.load import Overrides, load_settings
from upgrader.config.refused_chart import with_files
from upgrader.errors import ApiError, ChartRefused
from upgrader.model.api_lifecycle import Minor
from upgrader.model.audit_log import AuditLog
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.health_before import HealthBefore
from upgrader.model.left_out import LeftOut
from upgrader.model.observability import HttpEndpoint, ObservabilitySettings
from upgrader.model.observed import Observed
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import AvailabilitySettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import (
    Age,
    Clock,
    Commands,
    FollowedKube,
    Helm,
    HostKeys,
    HttpService,
    Kube,
    OwnMachine,
    Prometheus,
    Recovery,
    Tools,
)
from upgrader.steps.intended import IntendedStep, emulation_after, wanted_steps
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import IntendedRelease, PlannedRelease

if TYPE_CHECKING:
    from upgrader.engine.history.journal_mirroring import JournalMirror
    from upgrader.engine.history.journal_on_controllers import ControllerReplicas
    from upgrader.engine.history.run_discovery import DiscoveredRuns
    from upgrader.engine.locks.fence import Fence
    from upgrader.engine.state.run_state import RunState
    from upgrader.gates.gate_memory import GateMemory
    from upgrader.model.rehearsal_record import KnownRehearsal
    from upgrader.preflight.context import PreflightContext
    from upgrader.recover.pipeline import RecoverTools
    from upgrader.recover.webhook_bypass.unreachable import UnreachableWebhooks
    from upgrader.reporting.observability.sinks import MetricSink
    from upgrader.steps.backup.take import BackupTaker
    from upgrader.steps.images.bundle.reading import Bundle
    from upgrader.steps.pipeline_builder import PipelineBuilder

__all__ = [
    "Session",
    "age_files",
    "copy_image",
    "intended_steps",
    "metric_sinks",
    "open_api",
    "open_kube",
    "open_renderer",
    "open_session",
    "open_stranger",
    "own_host",
    "own_machine",
    "prometheus_at",
    "push_archive",
    "system_clock",
    "wanted_releases",
    "webhook_service",
]

_BRIEF_SECONDS = 3.0
_SERVICE_SECONDS = 5.0
"""How long a service beside the cluster may take for an answer."""


def _no_memory() -> GateMemory:
    from upgrader.gates.gate_memory import GateMemory

    return GateMemory()


@dataclass(frozen=True)
class Session:
    """One cluster folder, opened: its settings, its machines and the tools to work on them."""

    settings: Settings
    cluster: Cluster
    tools: Tools
    brief_kube: Kube
    """The same API with a short deadline, for what must not delay a run."""
    fence: Fence
    """Keeps playbooks off the controllers once another process has taken the cluster's lock."""
    memory: GateMemory = field(default_factory=_no_memory)
    unreachable: UnreachableWebhooks | None = None
    """What its tools switch off of guard's webhooks, while a run needs what these refuse; None: nothing."""
    doing: Callable[[str], None] = lambda _: None
    """As the front end's."""
    audit_log: AuditLog | None = None
    """What checks find clients in; None: they don't ask."""
    known_rehearsal: Callable[[], KnownRehearsal | None] | None = None
    """As `PreflightContext` has it."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    """The controllers of the inventory that `cluster` and the values are without, as they are down."""
    upgrade_to_resume: str = ""
    """The upgrade that is left to resume before one of these can return; "": none."""

    @property
    def webhooks(self) -> UnreachableWebhooks:
        """Guard's webhooks that can't be reached, for a run."""
        from upgrader.recover.webhook_bypass.unreachable import UnreachableWebhooks

        return self.unreachable or UnreachableWebhooks(self.tools.kube, self.tools.clock)

    @property
    def builder(self) -> PipelineBuilder:
        """Builds pipelines for this cluster."""
        from upgrader.steps.pipeline_builder import PipelineBuilder

        return PipelineBuilder(self.settings, self.cluster, self.tools, memory=self.memory, age=age_files())

    @property
    def backup_taker(self) -> BackupTaker:
        """Takes backups of this cluster."""
        from upgrader.steps.backup.take import BackupTaker

        tools = self.tools
        return BackupTaker(tools.hosts, tools.kube, tools.clock, age_files(), self.cluster, self.settings.backup)

    def telling(self, doing: Callable[[str], None]) -> Session:
        """The same, which says what it is doing."""
        return replace(self, doing=doing)

    def at(self, target: KubernetesVersion) -> Session:
        """The same with another target, whatever upgrader.yaml says."""
        return replace(self, settings=replace(self.settings, target=target))

    def with_bundle(self, path: Path | None) -> Session:
        """The same with images from this bundle; None leaves it as upgrader.yaml has it."""
        if path is None:
            return self
        images = replace(self.settings.images, bundle=path.absolute())
        return replace(self, settings=replace(self.settings, images=images))

    def with_audit_log(self, log: AuditLog | None) -> Session:
        """The same, whose checks find clients in it."""
        return replace(self, audit_log=log)

    def without(self, left_out: Mapping[str, LeftOut]) -> Session:
        """The same as if these controllers didn't belong to the control plane. Raises UsageError."""
        from upgrader.app.values_edit import with_counts

        staying = tuple(host for host in self.cluster.controllers if host.name not in left_out)
        if len(staying) == len(self.cluster.controllers):
            return self
        settings = with_counts(self.settings, tuple(host.address for host in staying))
        return replace(self, settings=settings, cluster=replace(self.cluster, controllers=staying), left_out=left_out)

    def as_marked(self) -> Session:
        """The same without the controllers whose nodes are marked as left out. Raises ApiError or UsageError."""
        from upgrader.preflight.down_controllers import left_out_of

        return self.without(left_out_of(self.tools.kube, self.cluster))

    def without_left_out(self, tell: Callable[[str], None], then: str = "", *, unread: str = "") -> Session:
        """The same as `as_marked`, for a command that does nothing on a controller that is left out: `tell` is told of
        each, and `then` is done there when it is back. Where no mark can be read, all controllers are meant; `unread`
        is told then, if a run may leave controllers out. Raises UsageError.
        """
        try:
            session = self.as_marked()
        except ApiError:
            if unread and self.settings.degraded == "allow":
                tell(unread)
            return self
        for name in session.left_out:
            back = f"upgrader resume, then {then}" if then else "upgrader resume"
            tell(f"Controller {name} is left out of runs, so this command does nothing there. Once it is back: {back}")
        return session

    def without_probe(self) -> Session:
        """The same, without requests to the API that only measure it."""
        return replace(self, settings=replace(self.settings, availability=AvailabilitySettings(0.0)))

    def cluster_uid(self) -> str:
        """What tells this cluster from every other one. Raises ApiError where the API doesn't tell."""
        from upgrader.adapters.cluster_uid import ClusterUid

        found = ClusterUid(self.tools.kube)()
        if not found:
            raise ApiError("the UID of the namespace kube-system can't be read", remedy="Check the API, and try again.")
        return found

    @contextmanager
    def bundle(self) -> Iterator[Bundle | None]:
        """The bundle that images come from, all its checksums compared; None where there is none."""
        if self.settings.images.bundle is None:
            yield None
            return
        from upgrader.steps.images.bundle.reading import open_bundle

        with open_bundle(self.settings.images.bundle) as bundle:
            yield bundle

    def read_health_before(self) -> HealthBefore:
        """How healthy the rest of the cluster is now. Raises ApiError."""
        from upgrader.gates.critical_workloads import read_health_before

        return read_health_before(self.tools.kube, self.cluster)

    def observe(self) -> Observed:
        """Read from the cluster what the pipeline needs to know."""
        from upgrader.app.observe_cluster import observe

        self.doing("reading what is installed in the cluster…")
        found = observe(self.tools.kube, self.tools.helm, wanted_releases(self.settings))
        if self.settings.etcd is None:
            return found
        from upgrader.steps.etcd.on_hosts import etcd_images

        return replace(found, etcd=etcd_images(self.tools.hosts, self.cluster.controllers))

    def plan(self, observed: Observed, then: KubernetesVersion | None = None) -> Plan:
        """What a run would change. Raises HelmError for values that a chart's schema refuses.

        `then`: the version of the hop after it; None: it is the last one.
        """
        emulated = emulation_after(self.settings, observed, last=then is None)
        return self.builder.plan(self.intended(emulated), observed, emulated, then)

    def upgrade_plan(self, observed: Observed, then: KubernetesVersion | None, bundle: Bundle | None) -> Plan:
        """The same, with the steps that a run adds to those of upgrader.yaml: a backup, images, a bake."""
        from upgrader.steps.pipeline_builder import with_every_step

        plan = self.plan(observed, then)
        return with_every_step(plan, self.builder.upgrade(plan, bundle=bundle))

    def intended(self, emulated: Minor | None) -> tuple[IntendedStep, ...]:
        """The pipeline as it should be at the target, each chart rendered; `emulated`: the minor that it emulates."""
        self.doing(f"rendering the charts for {self.settings.target}…")
        return intended_steps(self.settings, self.tools.helm, emulated)

    def preflight(self, observed: Observed, plan: Plan, families: Collection[str] = ()) -> tuple[Finding, ...]:
        """The findings of every check, or of those of some families."""
        from upgrader.preflight.all_checks import CHECKS, run_checks
        from upgrader.steps.release.kind import ReleaseKind

        manifests = [text for step in planned_of(plan, PlannedRelease) for text in (step.before, step.after)]
        controllers = {host.name for host in self.cluster.controllers}
        workers = HealthBefore(tuple(name for name in observed.kubelets if name not in controllers))
        seconds = ReleaseKind(self.builder.since(workers).context).helm_seconds(*manifests)
        checks = tuple(item for item in CHECKS if not families or item[0] in families)
        context = replace(self.preflight_context(observed), plan=plan, helm_timeout_seconds=seconds)
        return run_checks(context, checks, self.doing)

    def preflight_context(self, observed: Observed) -> PreflightContext:
        """What checks read."""
        from upgrader.config.credentials_end import credentials_end
        from upgrader.onhost.sending.collect import examine_all
        from upgrader.onhost.sending.etcd_answers import ask_etcd
        from upgrader.preflight.context import PreflightContext

        return PreflightContext(
            kube=self.tools.kube,
            hosts=self.tools.hosts,
            helm=self.tools.helm,
            clock=self.tools.clock,
            cluster=self.cluster,
            target=self.settings.target,
            observed=observed,
            helm_timeout_seconds=self.settings.helm_timeout_seconds,
            severities=self.settings.severities,
            unreachable=self.memory.unreachable,
            examine=partial(examine_all, self.tools.hosts, self.cluster),
            ask_etcd=partial(ask_etcd, self.tools.hosts),
            credentials_end=partial(credentials_end, self.cluster.kubeconfig, self.cluster.context),
            playbooks=self.tools.playbooks,
            ssh_refuses=own_machine().ssh_refuses,
            ssh_agent=bool(os.environ.get("SSH_AUTH_SOCK")),
            takes_backups=bool(self.settings.backup.recipients),
            values_files=self.settings.values_files,
            node_settings=self.settings.nodes,
            pulls_images=self.settings.images.pull,
            probes=self.settings.availability.requests_per_second > 0,
            approvals=self.settings.approvals,
            prometheus=self.tools.prometheus,
            metric_gates=self.settings.all_metric_gates,
            workload_gates=self.settings.workload_gates,
            audit_log=self.audit_log,
            leaves_out=self.settings.degraded == "allow",
            left_out=self.left_out,
            upgrade_to_resume=self.upgrade_to_resume,
            run_at_work=self._run_at_work,
            rehearsal_policy=self.settings.rehearsal,
            known_rehearsal=self.known_rehearsal,
        )

    def _run_at_work(self) -> str:
        """As the cluster's lock says; this process, which holds it for checks too, has begun no run by then."""
        from upgrader.engine.locks.cluster_lock import read_lease

        try:
            lease = read_lease(self.brief_kube)
        except ApiError:
            return ""  # it only explains what was found already
        return str(lease.holder) if lease and lease.holder and lease.holder.run else ""

    def mirror(self, journal: Path, run: str, note: Callable[[str], None]) -> JournalMirror:
        """Replicates a run's journal outside this machine."""
        from upgrader.engine.history.journal_in_secrets import ClusterReplicas
        from upgrader.engine.history.journal_mirroring import JournalMirror

        return JournalMirror(
            journal,
            run,
            cluster=ClusterReplicas(self.brief_kube),
            controllers=self._controllers(),
            clock=self.tools.clock,
            keep=self.settings.keep_runs,
            note=note,
        )

    def find_runs(self) -> DiscoveredRuns:
        """All runs of this cluster that are known anywhere: here, in the cluster, on its controllers."""
        return _runs_at(self.settings, self.brief_kube, *self._controllers())

    def find_brief_runs(self) -> DiscoveredRuns:
        """Those that are known here or in the cluster, for what is only told: no machine is logged in to."""
        return _runs_at(self.settings, self.brief_kube)

    def metric_sinks(self) -> tuple[MetricSink, ...]:
        """Where the metrics of runs go, as upgrader.yaml says."""
        return metric_sinks(self.settings.observability)

    def webhook_service(self) -> HttpService | None:
        """The server that messages for people go to; None where upgrader.yaml names none."""
        return webhook_service(self.settings.observability)

    def trace_service(self) -> HttpService | None:
        """The collector that traces go to; None where upgrader.yaml names none."""
        from upgrader.adapters.http_service import HttpClient

        wanted = self.settings.observability.otlp
        return HttpClient(wanted, _SERVICE_SECONDS) if wanted else None

    def _controllers(self) -> tuple[ControllerReplicas, ...]:
        from upgrader.engine.history.journal_on_controllers import ControllerReplicas

        return tuple(ControllerReplicas(self.tools.hosts, host) for host in self.cluster.controllers)

    def recovery(self, admitted: Callable[[], bool]) -> Recovery:
        """Restores an API that doesn't recover by itself. `admitted`: whether its pods were admitted before the run."""
        return self.recover_tools(admitted=admitted).recovery

    def recover_tools(self, only: Sequence[str] = (), admitted: Callable[[], bool] = lambda: False) -> RecoverTools:
        """The tools of a recovery; `only` names the controllers that it may touch, () means all."""
        from upgrader.recover.diagnosis.examiner import Examiner
        from upgrader.recover.pipeline import RecoverTools
        from upgrader.recover.restoring.api_recovery import ApiRecovery

        tools = self.tools
        examine = Examiner(tools.hosts, tools.kube, self.cluster, only, admitted)
        return RecoverTools(
            hosts=tools.hosts,
            helm=tools.helm,
            kube=tools.kube,
            clock=tools.clock,
            cluster=self.cluster,
            examine=examine,
            recovery=ApiRecovery(
                examine,
                machines=examine.machines,
                hosts=tools.hosts,
                kube=tools.kube,
                clock=tools.clock,
                admitted=admitted,
            ),
            gates=self.builder.gates,
            helm_timeout_seconds=self.settings.helm_timeout_seconds,
        )


def wanted_releases(settings: Settings) -> tuple[ReleaseSpec, ...]:
    """The releases of the pipeline, as they should be at the settings' target."""
    return tuple(item for item in wanted_steps(settings, charts_folder()) if isinstance(item, ReleaseSpec))


def intended_steps(
    settings: Settings, helm: Helm, emulated: Minor | None = None, *, offline: bool = False
) -> tuple[IntendedStep, ...]:
    """The pipeline as it should be at the settings' target, each chart rendered (`offline`: without the API).

    Raises ChartRefused with the files' names and lines.
    """

    def rendered(spec: ReleaseSpec) -> IntendedRelease:
        try:
            return IntendedRelease(spec, helm.render(spec, target=settings.target, offline=offline))
        except ChartRefused as error:
            raise with_files(error, spec.name, spec.chart, settings.values_files.get(spec.name)) from error

    wanted = wanted_steps(settings, charts_folder(), emulated)
    return tuple(item if isinstance(item, PlannedPlaybook) else rendered(item) for item in wanted)


@contextmanager
def open_renderer() -> Iterator[Helm]:
    """Helm without any cluster, and without this user's plugins and logins: it can only render."""
    from upgrader.adapters.helm import HelmAdapter
    from upgrader.adapters.helm_confinement import confined

    with confined() as confinement:
        helm = HelmAdapter(Path(os.devnull), confinement=confinement)
        try:
            yield helm
        finally:
            helm.close()


def age_files() -> Age:
    """What encrypts and decrypts backups."""
    from upgrader.adapters.age import AgeFiles

    return AgeFiles()


def own_host() -> tuple[Commands, Host]:
    """The machine that this process runs on, as what runs commands there; not from a virtual environment, which may be
    where only this user, or this process, finds it.
    """
    from upgrader.adapters.own_host import OwnHost

    return OwnHost(), Host("this machine", "127.0.0.1", python=os.path.realpath(sys.executable))


def own_machine() -> OwnMachine:
    """The machine that this process runs on."""
    from upgrader.adapters.own_machine import ThisMachine

    return ThisMachine()


def system_clock() -> Clock:
    """The clock of this machine, for what comes before a session."""
    from upgrader.adapters.clock import SystemClock

    return SystemClock()


def metric_sinks(wanted: ObservabilitySettings) -> tuple[MetricSink, ...]:
    """Where metrics go, as a file's section `observability` says."""
    from upgrader.adapters.http_service import HttpClient
    from upgrader.reporting.observability.sinks import MetricSink, Pushgateway, Textfile

    sinks = list[MetricSink]()
    if wanted.textfile_folder:
        sinks.append(Textfile(wanted.textfile_folder, wanted.cluster))
    if wanted.pushgateway:
        sinks.append(Pushgateway(HttpClient(wanted.pushgateway, _SERVICE_SECONDS), wanted.cluster))
    return tuple(sinks)


def webhook_service(wanted: ObservabilitySettings) -> HttpService | None:
    """The server that messages for people go to; None where a file's section `observability` names none."""
    from upgrader.adapters.http_service import HttpClient

    return HttpClient(wanted.webhook.endpoint, _SERVICE_SECONDS) if wanted.webhook else None


def prometheus_at(endpoint: HttpEndpoint) -> Prometheus:
    """The server that metric gates query."""
    from upgrader.adapters.http_service import HttpClient
    from upgrader.adapters.prometheus import PrometheusApi

    return PrometheusApi(HttpClient(endpoint, _SERVICE_SECONDS))


@contextmanager
def open_kube(folder: Path, timeout_seconds: float) -> Iterator[Kube]:
    """Only the API of a cluster folder's cluster; each call has this timeout."""
    from upgrader.config.kubeconfig_context import find_context

    kubeconfig, context = find_context(load_settings(folder, os.environ), os.environ)
    with open_api(kubeconfig, timeout_seconds, context) as kube:
        yield kube


@contextmanager
def open_api(kubeconfig: Path, timeout_seconds: float, context: str = "") -> Iterator[FollowedKube]:
    """Only the API that a kubeconfig's context leads to, by default its current one; each call has this timeout."""
    from upgrader.adapters.kube import KubeAdapter

    kube = KubeAdapter(kubeconfig, context, timeout_seconds=timeout_seconds)
    try:
        yield kube
    finally:
        kube.close()


@contextmanager
def open_stranger(kubeconfig: Path, context: str) -> Iterator[tuple[Kube, HostKeys]]:
    """The API of a cluster that has no folder yet, and the machines that identify themselves."""
    from upgrader.adapters.host_keys import SshHostKeys
    from upgrader.adapters.kube import KubeAdapter

    kube = KubeAdapter(kubeconfig, context)
    try:
        yield kube, SshHostKeys()
    finally:
        kube.close()


def _runs_at(settings: Settings, brief_kube: Kube, *controllers: ControllerReplicas) -> DiscoveredRuns:
    """The runs that are known here, in the cluster, or on these of its controllers."""
    from upgrader.engine.history.journal_in_secrets import ClusterReplicas
    from upgrader.engine.history.journal_replicas import LocalJournals
    from upgrader.engine.history.run_discovery import find_runs

    return find_runs((LocalJournals(settings.folder / "runs"), ClusterReplicas(brief_kube), *controllers))


def _known_runs(settings: Settings, brief_kube: Kube) -> tuple[RunState, ...]:
    return tuple(run.state for run in _runs_at(settings, brief_kube).runs)


@contextmanager
def open_session(
    folder: Path, target: KubernetesVersion | None = None, kubeconfig: Path | None = None
) -> Iterator[Session]:
    """Read a cluster folder and connect; `target` and `kubeconfig` None mean the file's.

    Raises UsageError for whatever is wrong with the folder, before any connection.
    """
    from upgrader.adapters.clock import SystemClock
    from upgrader.adapters.cluster_uid import ClusterUid
    from upgrader.adapters.helm import HelmAdapter
    from upgrader.adapters.hosts import SshHosts
    from upgrader.adapters.kube import KubeAdapter
    from upgrader.adapters.playbooks import AnsiblePlaybooks
    from upgrader.adapters.record_age import RecordAge
    from upgrader.config.inventory import load_cluster
    from upgrader.config.kubeconfig_context import find_context
    from upgrader.config.missing_files import refuse_missing
    from upgrader.engine.history.seen_healthy import HelmAsSeen
    from upgrader.engine.locks.fence import Fence
    from upgrader.engine.locks.fenced_playbooks import FencedPlaybooks
    from upgrader.recover.webhook_bypass.bypassing_tools import BypassingHelm, BypassingKube
    from upgrader.recover.webhook_bypass.unreachable import UnreachableWebhooks

    settings = load_settings(folder, os.environ, Overrides(target=target, kubeconfig=kubeconfig))
    refuse_missing(settings, os.environ)
    kubeconfig, context = find_context(settings, os.environ)
    settings = replace(settings, kubeconfig=kubeconfig)
    with ExitStack() as stack:
        # Ansible reads its inventory in a separate process, while the other tools are made ready here.
        cluster = stack.enter_context(ThreadPoolExecutor(1)).submit(load_cluster, settings, context)
        hosts = SshHosts()
        stack.callback(hosts.close)
        kube = KubeAdapter(settings.kubeconfig, context)
        stack.callback(kube.close)
        brief_kube = KubeAdapter(settings.kubeconfig, context, timeout_seconds=_BRIEF_SECONDS)
        stack.callback(brief_kube.close)
        helm = HelmAdapter(
            settings.kubeconfig, context, cluster=ClusterUid(brief_kube), record_age=RecordAge(brief_kube)
        )
        stack.callback(helm.close)
        clock = SystemClock()
        fence = Fence(hosts, cluster.result().controllers, clock)
        asked = settings.observability.prometheus
        prometheus = prometheus_at(asked) if asked else None
        webhooks = UnreachableWebhooks(kube, clock)
        tools = Tools(
            BypassingHelm(HelmAsSeen(helm, lambda: _known_runs(settings, brief_kube)), webhooks),
            BypassingKube(kube, webhooks),
            FencedPlaybooks(AnsiblePlaybooks(pipelined=playbooks_folder()), fence),
            clock,
            hosts,
            prometheus,
        )
        yield Session(settings, cluster.result(), tools, brief_kube, fence, unreachable=webhooks)
