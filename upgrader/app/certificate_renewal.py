"""`upgrader certs renew`: what `kubeadm certs renew` does, on every controller, through the pipeline."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from upgrader.app.certificates import read_all
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.finalize import refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.wiring import Session, open_session
from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.certificates.pipeline import Serving, components_to_restart, renewal_pipeline, serving
from upgrader.errors import ApiError, Blocked, HostError
from upgrader.gates.api_absence import api_problem
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.health_before import HealthBefore
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.model.release import last_good
from upgrader.model.renewable import ControllerCertificates, RenewableCertificate
from upgrader.model.run_kind import RunKind
from upgrader.onhost.certificates.bundles import certificates
from upgrader.onhost.certificates.renewed_by_kubeadm import KNOWN
from upgrader.pipeline import Pipeline
from upgrader.preflight.all_checks import CHECKS, run_checks
from upgrader.preflight.refusal import refuse_if_blocked
from upgrader.wait_and_retry import wait_until

__all__ = ["ProposedRenewal", "mend_controllers", "propose_renewal", "served_files"]

_SYSTEM = "kube-system"
_FAMILIES = ("access", "hosts", "nodes", "clocks", "control-plane", "critical-pods")
_CHECKS = tuple((name, check) for name, check in CHECKS if name in _FAMILIES)
_BACK_SECONDS = 180.0
"""For kube-apiserver to be started again, once its files are whole: its kubelet waits longer after each failure."""


@dataclass(frozen=True)
class ProposedRenewal:
    """What would be renewed, and in which steps; the cluster is locked, unless it was only to be looked at."""

    now: datetime
    wanted: Mapping[Host, tuple[RenewableCertificate, ...]]
    pipeline: Pipeline
    findings: tuple[Finding, ...]
    session: Session
    front_end: FrontEnd
    health_before: HealthBefore
    held: HeldLock | None

    @property
    def needed(self) -> bool:
        """Whether there is anything to renew, or to restart after an earlier renewal."""
        return bool(self.pipeline.steps)

    @property
    def of_administrators(self) -> bool:
        """Whether a kubeconfig is renewed of which operators have copies."""
        return any("admin.conf" in item.name for items in self.wanted.values() for item in items)

    def check_allowed(self) -> None:
        """Raises Blocked where a check forbids it."""
        refuse_if_blocked("the renewal; nothing was renewed", self.findings)

    def execute(self) -> FinishedRun:
        """Execute it."""
        self.check_allowed()
        return execute_run(
            self.session,
            self.front_end,
            NewRun(
                RunKind.RENEW_CERTIFICATES,
                self.pipeline,
                on_failure="rollback-run",
                health_before=self.health_before,
                findings=self.findings,
                compare=True,
            ),
            held=self.held,
        )


@contextmanager
def propose_renewal(
    folder: Path, front_end: FrontEnd, within: timedelta | None, *, take_over: bool, dry_run: bool
) -> Iterator[ProposedRenewal]:
    """Look what ends `within` that time (None: everything), and lock the cluster, unless it is a `dry_run`.

    Changes nothing, but for what an interrupted renewal had left unusable. A controller that is left out keeps its
    certificates until it is back. Raises Blocked where kubeadm can't renew what is wanted, and ApiError where no API
    answers, with what to do about certificates that have expired.
    """
    with front_end.busy(), open_session(folder) as opened, nullcontext() if dry_run else locked_folder(folder):
        session = opened.telling(front_end.doing).without_left_out(
            front_end.notify, "`upgrader certs renew` again, for its certificates"
        )
        kubeadm = _kubeadm(session, front_end, mend=not dry_run)
        lock = nullcontext(None) if dry_run else cluster_lock(session, front_end, take_over=take_over)
        with lock as held:
            refuse_unended(session.find_runs())
            served = served_files(session)
            now = session.tools.clock.now()
            session.doing("reading the certificates of the controllers…")
            _refuse_two_authorities(session, kubeadm)
            found = [_look(kubeadm, host) for host in session.cluster.controllers]
            wanted = {item.host: tuple(item.ending(now, within)) for item in found}
            _refuse_external(found, wanted)
            _refuse_unknown(wanted)
            observed = session.observe()
            findings = run_checks(session.at(observed.server).preflight_context(observed), _CHECKS, session.doing)
            health_before = session.read_health_before()
            pipeline = _pipeline(session, kubeadm, wanted, served, health_before)
            front_end.doing("")
            yield ProposedRenewal(now, wanted, pipeline, findings, session, front_end, health_before, held)


def _pipeline(
    session: Session,
    kubeadm: KubeadmOnHost,
    wanted: Mapping[Host, tuple[RenewableCertificate, ...]],
    served: Serving,
    health_before: HealthBefore,
) -> Pipeline:
    tools = session.tools
    names = {host: tuple(item.name for item in items) for host, items in wanted.items()}
    return renewal_pipeline(
        kubeadm,
        names,
        components_to_restart(tools.kube, tools.hosts, session.cluster.controllers, names),
        served,
        renewal=secrets.token_hex(8),
        tools=tools,
        gates=session.builder.since(health_before).gates,
        manifest=lambda release: tools.helm.manifest(release, _SYSTEM),
    )


def _kubeadm(session: Session, front_end: FrontEnd, *, mend: bool) -> KubeadmOnHost:
    """kubeadm, with its folder of certificates. After an interruption that may have taken the API down, it restores
    first.
    """
    tools = session.tools
    if mend:
        mend_controllers(session, front_end)
    try:
        config = tools.kube.get(CONFIG_MAPS, KUBEADM_CONFIG_MAP, _SYSTEM)
    except ApiError as error:
        raise _explained(session, error) from None
    if config is None:
        return KubeadmOnHost(tools.hosts)
    try:
        return KubeadmOnHost(tools.hosts, KubeadmConfig.of(config).certificates_folder)
    except ValueError as error:
        raise Blocked(
            f"ConfigMap {_SYSTEM}/{KUBEADM_CONFIG_MAP} can't be read (it has the certificates' folder): {error}",
            remedy=f"Check its content: kubectl -n {_SYSTEM} get configmap {KUBEADM_CONFIG_MAP} -o yaml",
        ) from error


def mend_controllers(session: Session, front_end: FrontEnd) -> None:
    """Restore the files that an interrupted renewal has left unusable on a controller, over SSH: they may be why no API
    answers.

    Raises HostError.
    """
    tools, mended = session.tools, False
    for host in session.cluster.controllers:
        for name in KubeadmOnHost(tools.hosts).mend(host):
            front_end.notify(f"{host.name}: an interrupted renewal left {name} unusable; restoring it")
            mended = True
    if mended:
        wait_until(
            tools.clock,
            lambda: api_problem(tools.kube),
            seconds=_BACK_SECONDS,
            what="the API server",
            note=front_end.notify,
        )


def _explained(session: Session, error: ApiError) -> ApiError:
    """An API that rejects all clients, or that all clients reject, may have expired certificates."""
    now = session.tools.clock.now()
    shown = read_all(session.tools.hosts, session.cluster.controllers, now)
    expired = [f"{item.host}: {item.path}" for item in shown.files if item.not_after <= now]
    if not expired:
        return error
    explained = type(error)(
        "\n".join((error.message, "these certificates have expired:", *expired)),
        remedy="A run needs the API, so renew these by hand: on each controller, kubeadm certs renew all; "
        "kube-apiserver and etcd reload their files within a minute. Then copy the user of "
        "/etc/kubernetes/admin.conf to your own kubeconfig, and run `upgrader certs renew` for the rest.",
    )
    explained.status = error.status
    return explained


def served_files(session: Session) -> Serving:
    """What kube-apiserver serves. Raises Blocked for a control plane that wasn't adopted, or that has no files."""
    if last_good(session.tools.helm.history("kubernetes", _SYSTEM)) is None:
        raise Blocked(
            "the release kubernetes is not installed: this control plane was not adopted; nothing was changed",
            remedy="Adopt it first (`upgrader adopt`), or use `kubeadm certs renew` as on any kubeadm cluster.",
        )
    found = serving(session.tools.kube)
    if found is None:
        raise Blocked(
            "kube-apiserver's certificate isn't a file on the controllers; nothing was changed",
            remedy="kubeadm only renews files. If the chart reads certificates from a Secret (`pki.source`), renew "
            "them there, and run `upgrader run`.",
        )
    return found


def _look(kubeadm: KubeadmOnHost, host: Host) -> ControllerCertificates:
    try:
        return kubeadm.look(host)
    except HostError as error:
        raise type(error)(f"{error.message}; nothing was renewed", remedy=error.remedy) from error


def _refuse_two_authorities(session: Session, kubeadm: KubeadmOnHost) -> None:
    """kubeadm would write kubeconfigs that trust the first CA of the file alone."""
    path = f"{kubeadm.certificates}/ca.crt"
    for host in session.cluster.controllers:
        text = (session.tools.hosts.read(host, path) or b"").decode("latin-1")
        if len(certificates(text)) > 1:
            raise Blocked(
                f"{host.name}: {path} has several CAs: a rotation of the cluster's CA is in progress; nothing was "
                "renewed",
                remedy="Complete the rotation first: `upgrader certs rotate-ca show` names the next step.",
            )


def _refuse_unknown(wanted: Mapping[Host, tuple[RenewableCertificate, ...]]) -> None:
    lines = [f"{host.name}: {item.name}" for host, items in wanted.items() for item in items if item.name not in KNOWN]
    if lines:
        raise Blocked(
            "\n".join(
                ("this version of upgrader doesn't know the files of these certificates; nothing was renewed:", *lines)
            ),
            remedy="Use a newer version of upgrader. Or run `kubeadm certs renew` there, then `upgrader certs renew "
            "--within 1s`, which restarts the components that read these certificates.",
        )


def _refuse_external(
    found: list[ControllerCertificates], wanted: Mapping[Host, tuple[RenewableCertificate, ...]]
) -> None:
    lines = []
    for each in found:
        external = [item for item in wanted[each.host] if item.external]
        if external:
            authorities = ", ".join(sorted({item.authority for item in external}))
            names = ", ".join(item.name for item in external)
            lines.append(f"{each.host.name}: the key of {authorities} is missing (an external CA), needed for {names}")
    if lines:
        raise Blocked(
            "\n".join(("kubeadm can't renew these certificates; nothing was renewed:", *lines)),
            remedy="Issue them with that CA, and copy them to their paths. Then run `upgrader certs renew --within "
            "TIME`, with a time shorter than their validity: it restarts the components that read them.",
        )
