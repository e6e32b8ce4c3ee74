"""`upgrader certs rotate-ca`: which CAs are trusted, a new one beside the old one, and the way back from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upgrader.adopt.joined import running_version
from upgrader.app.certificate_renewal import served_files
from upgrader.app.execution import FinishedRun, execute_run
from upgrader.app.finalize import refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.unchanged import check_unchanged
from upgrader.app.wiring import Session, open_session
from upgrader.config.yaml_editing import with_changes
from upgrader.errors import Inhibited, UsageError
from upgrader.gates.apiserver_instance import instance_flags
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NODES, WORKLOADS
from upgrader.model.ca_trust import CaTrust
from upgrader.model.cluster import Cluster
from upgrader.model.finding import Finding
from upgrader.model.health_before import HealthBefore
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.model.plan import Plan, PlannedRelease
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import ReleaseSettings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.preflight.all_checks import CHECKS, inhibits, run_checks
from upgrader.preflight.component_flags import parse_flags
from upgrader.renewal.authority_on_host import AuthorityOnHost
from upgrader.renewal.onhost.authority import SIGNING
from upgrader.renewal.trust_pipeline import RELEASE, Rotation
from upgrader.step_builder import StepBuilder

__all__ = ["FoundCas", "ProposedTrust", "found_cas", "show_cas"]

_SYSTEM, _MANAGER = "kube-system", "kube-controller-manager"
_FAMILIES = ("access", "hosts", "nodes", "clocks", "control-plane", "critical-pods", "keys", "helm", "mounted-files")
_CHECKS = tuple((name, check) for name, check in CHECKS if name in _FAMILIES)
_FORM = ("encryptionAlgorithm", "caCertificateValidityPeriod", "certificateValidityPeriod")
"""What of kubeadm's ClusterConfiguration decides on a CA's form."""
_NOTHING = "nothing was changed"


@dataclass(frozen=True)
class FoundCas:
    """The CAs of a cluster, and the values file that the phase changes. The folder is locked."""

    folder: Path
    front_end: FrontEnd
    cancel: bool
    """Whether the phase is the way back."""
    found: CaTrust
    version: KubernetesVersion
    files: Mapping[Path, str]
    """The values file with its new text, where it changes."""
    findings: tuple[Finding, ...]

    def check_allowed(self) -> None:
        """Raises Inhibited where a check forbids it."""
        if inhibits(self.findings):
            raise Inhibited(
                f"a check blocks the rotation; {_NOTHING}",
                remedy="Fix the checks marked error or unknown, then run it again.",
            )

    @contextmanager
    def propose(self, *, take_over: bool) -> Iterator[ProposedTrust]:
        """Lock the cluster, and build the steps from what the nodes have now."""
        with (
            open_session(self.folder, self.version) as session,
            cluster_lock(session, self.front_end, take_over=take_over) as held,
        ):
            check_unchanged(session, self.version)
            health_before = session.read_health_before()
            observed = replace(session.observe(), server=self.version)
            on_host, settings = _kubeadm(session)
            build = session.builder.since(health_before).steps
            rotation = Rotation(
                session.cluster,
                _look(session.cluster, on_host),
                on_host,
                session.tools,
                served_files(session).port,
                build.gates,
                tuple(_release(session.plan(observed), build)),
            )
            pipeline = rotation.cancel() if self.cancel else rotation.trust(lambda: settings)
            yield ProposedTrust(pipeline, self.cancel, self.findings, session, self.front_end, health_before, held)


@dataclass(frozen=True)
class ProposedTrust:
    """The steps of a phase; the cluster is locked."""

    pipeline: Pipeline
    cancel: bool
    findings: tuple[Finding, ...]
    session: Session
    front_end: FrontEnd
    health_before: HealthBefore
    held: HeldLock

    @property
    def changes(self) -> bool:
        """Whether anything is left to do."""
        return any(item.changes for item in self.pipeline.steps)

    def execute(self) -> FinishedRun:
        """Execute it. Half a way back is completed by the same command, and never undone."""
        return execute_run(
            self.session,
            self.front_end,
            self.pipeline,
            kind=RunKind.CANCEL_NEW_CA if self.cancel else RunKind.TRUST_NEW_CA,
            on_failure="stop" if self.cancel else "rollback-run",
            health_before=self.health_before,
            findings=self.findings,
            compare=True,
            held=self.held,
        )


def show_cas(folder: Path) -> CaTrust:
    """Which CAs each node trusts. Changes nothing. Raises Inhibited for CAs that no rotation leaves so."""
    with open_session(folder) as session:
        on_host, _ = _kubeadm(session)
        return _look(session.cluster, on_host)


@contextmanager
def found_cas(folder: Path, front_end: FrontEnd, *, cancel: bool) -> Iterator[FoundCas]:
    """Lock the folder, and look at the CAs. Changes nothing. Raises Inhibited where the phase isn't possible."""
    with locked_folder(folder):
        with open_session(folder) as session:
            found = _found(session, front_end, cancel=cancel)
        yield found


def _found(session: Session, front_end: FrontEnd, *, cancel: bool) -> FoundCas:
    kube = session.tools.kube
    refuse_unended(session)
    served_files(session)
    _refuse_strangers(session)
    on_host, _ = _kubeadm(session)
    _refuse_flags(session, on_host)
    cas = _look(session.cluster, on_host)
    files = _edited(session, "" if cancel else SIGNING)
    if cancel and not (cas.new or files):
        raise Inhibited(f"no new CA is trusted, and none was made; {_NOTHING}", remedy="Nothing is to be cancelled.")
    if cas.new and not cas.keeper and not cancel:
        raise Inhibited(
            f"no controller has the key of the new CA, {cas.new[:16]}, which nodes trust already; {_NOTHING}",
            remedy="upgrader certs rotate-ca cancel, and then this again",
        )
    version = running_version(kube)
    observed = replace(session.observe(), server=version)
    findings = run_checks(session.at(version).preflight_context(observed), _CHECKS)
    return FoundCas(session.settings.folder, front_end, cancel, cas, version, files, findings)


def _release(plan: Plan, build: StepBuilder) -> Iterator[PipelineStep]:
    """The step of the release whose kube-controller-manager signs."""
    planned = next(item for item in plan.steps if isinstance(item, PlannedRelease) and item.name == RELEASE)
    if planned.pending:
        yield build.free(planned, plan)
    yield build.planned(planned, plan, (), lambda chart: chart)


def _look(cluster: Cluster, on_host: AuthorityOnHost) -> CaTrust:
    controllers = [on_host.look(host) for host in cluster.controllers]
    workers = [on_host.look(host) for host in cluster.workers]
    try:
        return CaTrust.of(controllers, workers, on_host.authority)
    except ValueError as error:
        raise Inhibited(
            f"{error}; {_NOTHING}",
            remedy="Look at the files that `upgrader certs show` lists. upgrader rotates a CA that kubeadm made, and "
            "whose key each controller has.",
        ) from error


def _kubeadm(session: Session) -> tuple[AuthorityOnHost, Mapping[str, object]]:
    """kubeadm's folder of certificates, and what it knows of a CA's form."""
    found = session.tools.kube.get(CONFIG_MAPS, KUBEADM_CONFIG_MAP, _SYSTEM)
    if found is None:
        return AuthorityOnHost(session.tools.hosts), {}
    try:
        config = KubeadmConfig.of(found)
        return AuthorityOnHost(session.tools.hosts, config.certificates_folder), config.fields(_FORM)
    except ValueError as error:
        raise Inhibited(
            f"ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP} can't be read, which says where certificates are: {error}",
            remedy=f"Read it: kubectl -n {_SYSTEM} get configmap {KUBEADM_CONFIG_MAP} -o yaml",
        ) from error


def _refuse_strangers(session: Session) -> None:
    """Every node has to trust the new CA: one that isn't listed would be lost when the old one goes."""
    listed = {host.name for host in (*session.cluster.controllers, *session.cluster.workers)}
    nodes = {str(item["metadata"]["name"]) for item in session.tools.kube.list(NODES)}
    if lost := sorted(nodes - listed):
        raise Inhibited(
            f"hosts.yml does not list these nodes, which have to trust the new CA too: {', '.join(lost)}; {_NOTHING}",
            remedy="Add them to the group `workers` of hosts.yml: each is reached over SSH.",
        )
    if gone := sorted(host.name for host in session.cluster.workers if host.name not in nodes):
        raise Inhibited(
            f"hosts.yml lists workers that are no nodes of the cluster: {', '.join(gone)}; {_NOTHING}",
            remedy="Remove them from hosts.yml, or give them their node's name.",
        )


def _refuse_flags(session: Session, on_host: AuthorityOnHost) -> None:
    """The files that are rotated have to be those that are used."""
    kube, folder = session.tools.kube, on_host.certificates
    wrong = []
    wanted = {
        "kube-apiserver": {"client-ca-file": {on_host.authority}},
        _MANAGER: {
            "root-ca-file": {on_host.authority},
            "client-ca-file": {on_host.authority},
            "cluster-signing-cert-file": {on_host.authority, f"{folder}/{SIGNING}"},
            "cluster-signing-key-file": {f"{folder}/ca.key"},
        },
    }
    for name, expected in wanted.items():
        found = kube.get(WORKLOADS["Deployment"], name, _SYSTEM)
        if found is None:
            raise Inhibited(f"there is no Deployment {_SYSTEM}/{name}; {_NOTHING}", remedy="Adopt it: upgrader adopt")
        flags = _flags(found["spec"]["template"]["spec"], name)
        wrong += [
            f"{name}: --{flag}={flags.get(flag, '')}" for flag, ok in expected.items() if flags.get(flag) not in ok
        ]
        # Each of the four signers can have a CA of its own, and the legacy one another.
        wrong += [f"{name}: --{flag}" for flag in flags if flag.startswith("cluster-signing-") and flag.count("-") > 4]
    if wrong:
        raise Inhibited(
            "\n".join((f"these flags are for other files than {on_host.authority} and its key; {_NOTHING}:", *wrong)),
            remedy="upgrader rotates the one CA that kubeadm gives a cluster. Rotate others by hand: "
            "https://kubernetes.io/docs/tasks/tls/manual-rotation-of-ca-certificates/",
        )


def _flags(spec: Mapping[str, Any], name: str) -> Mapping[str, str]:
    if name == "kube-apiserver":
        return parse_flags(instance_flags(spec))
    words = [each for item in spec["containers"] if item["name"] == name for each in _command(item)]
    return parse_flags(words)


def _command(container: Mapping[str, Any]) -> tuple[str, ...]:
    return (*(container.get("command") or ()), *(container.get("args") or ()))


def _edited(session: Session, signing: str) -> dict[Path, str]:
    """The values file with the file of the CA that signs; nothing where it has that already."""
    releases = {item.name: item for item in session.settings.pipeline if isinstance(item, ReleaseSettings)}
    found = releases.get(RELEASE)
    if found is None or found.chart is not None or found.values_file is None:
        raise UsageError(
            f"{session.settings.folder / 'upgrader.yaml'} has no release {RELEASE} with the built-in chart and a "
            "values file",
            remedy="Restore it in `pipeline`: the CA that signs is a value of it.",
        )
    if str((found.values.get("pki") or {}).get("signingCertificate") or "") == signing:
        return {}
    return {found.values_file: with_changes(found.values_file, {"pki": {"signingCertificate": signing}})}
