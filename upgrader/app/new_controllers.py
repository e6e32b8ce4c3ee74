"""`upgrader adopt --new-controllers`: controllers that joined an adopted cluster, into its releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.adopt.client_addresses import ApiPod, client_addresses
from upgrader.adopt.facts import ControllerFacts, read_controllers
from upgrader.adopt.joined import check_listed, check_node_files, check_version, joined
from upgrader.adopt.joined_differences import parts_that_go, released_flags
from upgrader.adopt.joined_pipeline import JoinedControllers
from upgrader.adopt.leaders_api import OwnServer
from upgrader.adopt.node_addresses import node_address, node_addresses
from upgrader.adopt.node_withdrawal import check_chosen_by_label
from upgrader.adopt.readable_files import check_readable
from upgrader.adopt.referred_files import mounted_by_file, opened_files, referred_to
from upgrader.adopt.static_pod_checks import check_machines, check_pods, check_with_values, leaders_kubeconfigs
from upgrader.app.adoption import ProposedAdoption
from upgrader.app.as_installed import observe_installed
from upgrader.app.finalize import refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import cluster_lock, locked_folder
from upgrader.app.unchanged import check_unchanged
from upgrader.app.values_edit import edited_counts
from upgrader.app.wiring import Session, open_session
from upgrader.config.kubeconfig_context import server_addresses
from upgrader.errors import Blocked
from upgrader.model.finding import Finding
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import BUILT_IN_CHARTS, ReleaseSettings
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import CHECKS, run_checks
from upgrader.preflight.refusal import refuse_if_blocked

__all__ = ["FoundControllers", "found_controllers"]

_BEFORE_ADOPTION = (
    "access",
    "hosts",
    "nodes",
    "machines",
    "clocks",
    "kubelets",
    "critical-pods",
    "etcd-members",
    "webhooks",
    "helm",
    "memory",
    "certificates",
    "keys",
)
_CHECKS = tuple((name, check) for name, check in CHECKS if name in _BEFORE_ADOPTION)


@dataclass(frozen=True)
class FoundControllers:
    """The controllers that aren't adopted yet, and the values files that count them. The folder is locked."""

    folder: Path
    front_end: FrontEnd
    new: tuple[ControllerFacts, ...]
    """Those on which kubeadm's static pods run."""
    served: tuple[str, ...]
    version: KubernetesVersion
    files: Mapping[Path, str]
    """Values files whose content would change, with their new text."""
    parts_that_go: Mapping[str, tuple[str, ...]]
    """What kubeadm's static pods have and the releases don't, by component and controller."""
    findings: tuple[Finding, ...]
    kubeconfigs: tuple[OwnServer, ...] = ()
    """Those on them that the charts' pods need changed."""

    def check_allowed(self) -> None:
        """Raises Blocked where a check forbids it."""
        refuse_if_blocked("the adoption; nothing was changed", self.findings)

    @contextmanager
    def propose(self, *, take_over: bool) -> Iterator[ProposedFound]:
        """Lock the cluster, and build the steps from the values files as they are now."""
        with (
            open_session(self.folder, self.version) as session,
            cluster_lock(session, self.front_end, take_over=take_over) as held,
        ):
            check_unchanged(session, self.version)
            observed = observe_installed(session).observed
            health_before = session.read_health_before()
            made = JoinedControllers(
                session.cluster,
                tuple(each.host for each in self.new),
                self.new,
                session.tools,
                self.served,
                node_addresses(session.tools.kube, session.cluster),
                self.kubeconfigs,
            )
            pipeline = made.pipeline(session.plan(observed), session.builder.since(health_before).context)
            proposed = ProposedAdoption(
                pipeline, self.findings, RunKind.ADOPT_NEW, session, self.front_end, held, health_before
            )
            yield ProposedFound(proposed, any(item.changes for item in pipeline.steps))


@dataclass(frozen=True)
class ProposedFound:
    """The steps."""

    adoption: ProposedAdoption
    changes: bool
    """Whether anything is left to do."""


@contextmanager
def found_controllers(folder: Path, front_end: FrontEnd) -> Iterator[FoundControllers]:
    """Lock the folder, and find the new controllers. Changes nothing. Raises Blocked where they can't be adopted."""
    with locked_folder(folder):
        with front_end.busy(), open_session(folder) as session:
            found = _found(session.telling(front_end.doing), front_end)
        yield found


def _found(session: Session, front_end: FrontEnd) -> FoundControllers:
    kube, hosts, cluster = session.tools.kube, session.tools.hosts, session.cluster
    check_chosen_by_label(kube)
    refuse_unended(session.find_runs())
    installed = observe_installed(session)
    version, observed = installed.version, installed.observed
    if observed.emulated is not None:
        raise Blocked(
            "the control plane emulates an older minor, but kubeadm's kube-apiserver does not; nothing was changed",
            remedy="Run `upgrader finalize`, then this again.",
        )
    check_listed(kube, cluster)
    new = joined(read_controllers(hosts, cluster))
    check_version(new, version)
    check_machines(kube, hosts, [each.host for each in new], _values(session, "pod-checkpointer"))
    check_pods(kube, hosts, new)
    own = [node_address(kube, each.host) for each in new]
    kubeconfigs = leaders_kubeconfigs(hosts, new, own, _values(session, "kubernetes"))
    _refuse_rotation(session)
    pods = [ApiPod(each.host, pod.flags) for each in new if (pod := each.active.get("kube-apiserver"))]
    served = client_addresses(kube, hosts, pods, server_addresses(cluster.kubeconfig, cluster.context))
    values = _api_values(session)
    pki = str((values.get("pki") or {}).get("hostPath", "/etc/kubernetes/pki"))
    manifests = [release.manifest for release in observed.releases.values()]
    by_file = mounted_by_file(new, manifests)
    check_readable(hosts, new, pki, by_file, opened_files(referred_to(hosts, new), (pki, *by_file)))
    _serve_all_clients(values, served)
    check_node_files(hosts, new, manifests)
    for each in new:
        check_with_values(hosts, [each], pki, tuple(released_flags(each, manifests)), values)
    files = edited_counts(session.settings, node_addresses(kube, cluster))
    findings = run_checks(session.at(version).preflight_context(observed), _CHECKS, session.doing)
    parts = parts_that_go(new, manifests, pki)
    return FoundControllers(
        session.settings.folder, front_end, new, served, version, files, parts, findings, kubeconfigs
    )


def _api_values(session: Session) -> Mapping[str, Any]:
    items = (item for item in session.settings.pipeline if isinstance(item, ReleaseSettings))
    releases = {item.name: item.values for item in items}
    if tuple(releases)[: len(BUILT_IN_CHARTS)] != BUILT_IN_CHARTS:
        raise Blocked(
            f"the pipeline must begin with {', '.join(BUILT_IN_CHARTS)} to adopt a controller",
            remedy="Restore that in upgrader.yaml.",
        )
    return releases["kube-apiserver"]


def _values(session: Session, release: str) -> Mapping[str, Any]:
    items = (item for item in session.settings.pipeline if isinstance(item, ReleaseSettings))
    return next((item.values for item in items if item.name == release), {})


def _refuse_rotation(session: Session) -> None:
    """A controller that joins then lacks the file with which kube-controller-manager signs."""
    values = _values(session, "kubernetes")
    if signing := (values.get("pki") or {}).get("signingCertificate"):
        raise Blocked(
            f"values/kubernetes.yaml sets {signing} as the signing CA, as a rotation of the cluster's CA does; a new "
            "controller doesn't have that file; nothing was changed",
            remedy="Check `upgrader certs rotate-ca show`, then complete the rotation or run `upgrader certs "
            "rotate-ca cancel`.",
        )


def _serve_all_clients(values: Mapping[str, Any], served: tuple[str, ...]) -> None:
    left = set(served) - set(values.get("extraAddresses") or ())
    if left and not values.get("exposeOnAllInterfaces"):
        raise Blocked(
            f"clients reach the API at {', '.join(sorted(left))} on a new controller; after adoption, the API would no "
            "longer be served there; nothing was changed",
            remedy="Add these addresses to `extraAddresses` in values/kube-apiserver.yaml, and run the same command "
            "again.",
        )
