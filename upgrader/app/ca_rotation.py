"""`upgrader certs rotate-ca`: which CAs are trusted, and the phases from an old one to a new one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from upgrader.adopt.joined import running_version
from upgrader.app.ca_rotation_refusals import (
    NOTHING,
    refuse_cancel,
    refuse_finish,
    refuse_flags,
    refuse_sign,
    refuse_strangers,
    refuse_trust,
)
from upgrader.app.certificate_renewal import mend_controllers, served_files
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.finalize import refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.unchanged import check_unchanged
from upgrader.app.wiring import Session, open_session
from upgrader.certificates.authority_on_host import AuthorityOnHost
from upgrader.certificates.sign_pipeline import Signing
from upgrader.certificates.trust_pipeline import RELEASE, Rotation
from upgrader.config.yaml_editing import with_changes
from upgrader.errors import Blocked, UsageError
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.model.ca_trust import CaTrust, RotationStage
from upgrader.model.cluster import Cluster
from upgrader.model.finding import Finding
from upgrader.model.health_before import HealthBefore
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import ReleaseSettings
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.certificates.new_signer import SIGNING
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.preflight.all_checks import CHECKS, run_checks
from upgrader.preflight.refusal import refuse_if_blocked
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.kind import ReleaseKind
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["FoundCas", "Phase", "ProposedPhase", "found_cas", "show_cas"]

_SYSTEM = "kube-system"
_FAMILIES = ("access", "hosts", "nodes", "clocks", "control-plane", "critical-pods", "keys", "helm", "mounted-files")
_CHECKS = tuple((name, check) for name, check in CHECKS if name in _FAMILIES)
_BEFORE_SIGNING = (RotationStage.NONE, RotationStage.TRUSTING, RotationStage.TRUSTED)
_FORM = ("encryptionAlgorithm", "caCertificateValidityPeriod", "certificateValidityPeriod")
"""What of kubeadm's ClusterConfiguration decides on a CA's form."""


class Phase(StrEnum):
    """What is to be done."""

    TRUST = "trust"
    SIGN = "sign"
    FINISH = "finish"
    CANCEL = "cancel"


_KINDS = {
    Phase.TRUST: RunKind.TRUST_NEW_CA,
    Phase.SIGN: RunKind.SIGN_WITH_NEW_CA,
    Phase.FINISH: RunKind.FINISH_NEW_CA,
    Phase.CANCEL: RunKind.CANCEL_NEW_CA,
}


@dataclass(frozen=True)
class FoundCas:
    """The CAs of a cluster, and the values file that the phase changes. The folder is locked."""

    folder: Path
    front_end: FrontEnd
    phase: Phase
    found: CaTrust
    version: KubernetesVersion
    files: Mapping[Path, str]
    """The values file with its new text, where it changes."""
    findings: tuple[Finding, ...]

    def check_allowed(self) -> None:
        """Raises Blocked where a check forbids it."""
        refuse_if_blocked(f"the rotation; {NOTHING}", self.findings)

    @contextmanager
    def propose(self, *, take_over: bool) -> Iterator[ProposedPhase]:
        """Lock the cluster, and build the steps from what the nodes have now.

        Raises Blocked where the new CA is to sign, and something in the cluster doesn't trust it.
        """
        with (
            self.front_end.busy(),
            open_session(self.folder, self.version) as opened,
            cluster_lock(opened, self.front_end, take_over=take_over) as held,
        ):
            session = opened.telling(self.front_end.doing)
            check_unchanged(session, self.version)
            health_before = session.read_health_before()
            observed = replace(session.observe(), server=self.version)
            on_host, settings = _kubeadm(session)
            builder = session.builder.since(health_before)
            rotation = Rotation(
                session.cluster,
                _look(session.cluster, on_host),
                on_host,
                session.tools,
                served_files(session).port,
                builder.gates,
                tuple(_release(session.plan(observed), ReleaseKind(builder.context))),
            )
            pipeline = self._pipeline(session, rotation, settings)
            # `trust` is not undone once the new CA signs: what that has issued has to stay trusted.
            trusts_only = self.phase is Phase.TRUST and rotation.found.stage in _BEFORE_SIGNING
            undone = trusts_only or self.phase is Phase.SIGN
            self.front_end.doing("")
            yield ProposedPhase(
                pipeline, self.phase, undone, self.findings, session, self.front_end, health_before, held
            )

    def _pipeline(self, session: Session, rotation: Rotation, settings: Mapping[str, object]) -> Pipeline:
        if self.phase is Phase.CANCEL:
            return rotation.cancel()
        if self.phase is Phase.FINISH:
            return rotation.finish()
        trust = rotation.trust(lambda: settings)
        if self.phase is Phase.TRUST:
            return trust
        late = any(node.late for node in rotation.found.nodes)
        if (trust.steps and not late) or rotation.found.keeper is None:
            names = ", ".join(item.step.name for item in trust.steps)
            raise Blocked(
                f"not everything trusts the new CA yet; still to do: {names}; {NOTHING}",
                remedy="upgrader certs rotate-ca trust",
            )
        served = served_files(session)
        return Signing(rotation, rotation.found.keeper, served, secrets.token_hex(8), lambda: settings).pipeline()


@dataclass(frozen=True)
class ProposedPhase:
    """The steps of a phase; the cluster is locked."""

    pipeline: Pipeline
    phase: Phase
    undone: bool
    """Whether it is undone where it fails; otherwise the same command completes it."""
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
        """Execute it."""
        return execute_run(
            self.session,
            self.front_end,
            NewRun(
                _KINDS[self.phase],
                self.pipeline,
                on_failure="rollback-run" if self.undone else "stop",
                health_before=self.health_before,
                findings=self.findings,
                compare=True,
            ),
            held=self.held,
        )


def show_cas(folder: Path) -> CaTrust:
    """Which CAs each node trusts. Changes nothing. Raises Blocked for CAs that no rotation leaves so."""
    with open_session(folder) as session:
        on_host, _ = _kubeadm(session)
        return _look(session.cluster, on_host)


@contextmanager
def found_cas(folder: Path, front_end: FrontEnd, phase: Phase) -> Iterator[FoundCas]:
    """Lock the folder, and look at the CAs. Raises Blocked where the phase isn't possible.

    Changes nothing, but for what an interrupted `sign` had left unusable on a controller.
    """
    with locked_folder(folder):
        with front_end.busy(), open_session(folder) as opened:
            session = opened.telling(front_end.doing)
            if phase in (Phase.SIGN, Phase.FINISH):
                mend_controllers(session, front_end)
            found = _found(session, front_end, phase)
        yield found


def _found(session: Session, front_end: FrontEnd, phase: Phase) -> FoundCas:
    kube = session.tools.kube
    refuse_unended(session.find_runs())
    served = served_files(session)
    refuse_strangers(session)
    on_host, _ = _kubeadm(session)
    refuse_flags(session, on_host)
    session.doing("reading the CAs of every node…")
    cas = _look(session.cluster, on_host)
    files = _edited(session, SIGNING if phase in (Phase.TRUST, Phase.SIGN) else "")
    if phase is Phase.TRUST:
        refuse_trust(cas)
    elif phase is Phase.SIGN:
        refuse_sign(session, cas, served, on_host, valued=not files)
    elif phase is Phase.FINISH:
        refuse_finish(session, cas, on_host)
    else:
        refuse_cancel(cas, valued=bool(files))
    version = running_version(kube)
    observed = replace(session.observe(), server=version)
    # A half-done `sign` leaves controllers with different CAs, which are known: it is about to be completed.
    checks = tuple(item for item in _CHECKS if cas.stage is not RotationStage.SIGNING or item[0] != "keys")
    findings = run_checks(session.at(version).preflight_context(observed), checks, session.doing)
    return FoundCas(session.settings.folder, front_end, phase, cas, version, files, findings)


def _release(plan: Plan, releases: ReleaseKind) -> Iterator[PipelineStep]:
    """The step of the release whose kube-controller-manager signs."""
    planned = next(item for item in planned_of(plan, PlannedRelease) if item.name == RELEASE)
    if planned.pending:
        yield releases.free(planned, plan)
    yield releases.step(planned, plan)


def _look(cluster: Cluster, on_host: AuthorityOnHost) -> CaTrust:
    controllers = [on_host.look(host) for host in cluster.controllers]
    workers = [on_host.look(host) for host in cluster.workers]
    try:
        return CaTrust.of(controllers, workers, on_host.authority)
    except ValueError as error:
        raise Blocked(
            f"{error}; {NOTHING}",
            remedy="Check the files that `upgrader certs show` lists. upgrader only rotates a kubeadm CA whose key is "
            "on each controller.",
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
        raise Blocked(
            f"ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP} can't be read (it names the folder of the "
            f"certificates): {error}",
            remedy=f"Check its content: kubectl -n {_SYSTEM} get configmap {KUBEADM_CONFIG_MAP} -o yaml",
        ) from error


def _edited(session: Session, signing: str) -> dict[Path, str]:
    """The values file with the file of the CA that signs; nothing where it has that already."""
    releases = {item.name: item for item in session.settings.pipeline if isinstance(item, ReleaseSettings)}
    found = releases.get(RELEASE)
    if found is None or found.chart is not None or found.values_file is None:
        raise UsageError(
            f"{session.settings.folder / 'upgrader.yaml'} has no release {RELEASE} with the built-in chart and a "
            "values file",
            remedy="Restore it in `pipeline`: the signing CA is set in its values.",
        )
    if str((found.values.get("pki") or {}).get("signingCertificate") or "") == signing:
        return {}
    return {found.values_file: with_changes(found.values_file, {"pki": {"signingCertificate": signing}})}
