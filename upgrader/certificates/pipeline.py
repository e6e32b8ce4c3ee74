"""A renewal as a pipeline: one controller after the other, then a restart of the pods that read their certificate
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from upgrader.certificates.gates import API_SERVER, InUseGate, ServedGate
from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.certificates.steps import RenewStep, RestartStep
from upgrader.contract.flags import last_values
from upgrader.gates.apiserver_instance import instance_flags, secure_port
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import PODS, WORKLOADS
from upgrader.model.cluster import Host
from upgrader.model.host_path import on_node
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.ports import Hosts, Kube, Tools
from upgrader.preflight.renewed_certificates import COMPONENTS, changed_at, used_kubeconfigs

__all__ = ["Serving", "api_server_flags", "components_to_restart", "renewal_pipeline", "serving"]

_KUBECONFIGS = {"controller-manager.conf": "kube-controller-manager", "scheduler.conf": "kube-scheduler"}
"""kubeadm's name of a kubeconfig → the component that reads it."""


@dataclass(frozen=True)
class Serving:
    """The address of each kube-apiserver, and the file of its certificate, as a path on the controllers."""

    certificate: str
    port: int


def serving(kube: Kube) -> Serving | None:
    """That of the Deployment kube-apiserver; None if its certificate is not a file on the controllers, but in a Secret,
    for example.

    Raises ApiError.
    """
    found = kube.get(WORKLOADS["Deployment"], API_SERVER.name, API_SERVER.namespace)
    if found is None:
        return None
    spec = found["spec"]["template"]["spec"]
    container = next((item for item in spec["containers"] if item["name"] == API_SERVER.name), None)
    path = last_values(instance_flags(spec)).get("tls-cert-file", "")
    try:
        certificate = on_node(spec, container, path) if container and path else None
    except KeyError:
        return None
    return Serving(certificate, secure_port(spec)) if certificate else None


def api_server_flags(kube: Kube) -> Mapping[str, str]:
    """The flags of the Deployment kube-apiserver; none where there is no such Deployment. Raises ApiError."""
    found = kube.get(WORKLOADS["Deployment"], API_SERVER.name, API_SERVER.namespace)
    return last_values(instance_flags(found["spec"]["template"]["spec"])) if found else {}


def components_to_restart(
    kube: Kube, hosts: Hosts, controllers: Sequence[Host], names: Mapping[Host, Sequence[str]]
) -> tuple[str, ...]:
    """Components whose kubeconfig is renewed, or has changed since they read it. `names` are kubeadm's names of the
    certificates that are renewed on each controller. Raises ApiError or HostError.
    """
    wanted = {_KUBECONFIGS[name] for renewed in names.values() for name in renewed if name in _KUBECONFIGS}
    for host in controllers:
        for used in used_kubeconfigs(kube.list(PODS, fields=f"spec.nodeName={host.name}")):
            if changed_at(hosts, host, used.path) > used.started:
                wanted.add(used.component)
    return tuple(name for name in COMPONENTS if name in wanted)


def renewal_pipeline(
    kubeadm: KubeadmOnHost,
    names: Mapping[Host, tuple[str, ...]],
    restarted: tuple[str, ...],
    served: Serving,
    *,
    renewal: str,
    tools: Tools,
    gates: GateCatalog,
    manifest: Callable[[str], str],
) -> Pipeline:
    """Undone in reverse: the previous pods return first, then each controller's files. `renewal` identifies the files
    that each controller keeps. `manifest` is that of a release as it is installed.
    """
    steps: list[PipelineStep] = []
    for host, wanted in names.items():
        if wanted:
            gate = gates.run(ServedGate(tools.kube, kubeadm, host, served.certificate, served.port))
            step = RenewStep(kubeadm, host, wanted, renewal)
            # What undoes it needs no API, and may be what brings the API back.
            steps.append(
                PipelineStep(step, (gate, *gates.of_cluster()), (gate, *gates.of_controllers()), undo_needs_api=False)
            )
    if restarted:
        own = tuple(
            run
            for release in ("kubernetes", "pod-checkpointer")
            for run in gates.own(release, manifest(release), namespace=API_SERVER.namespace, target=None)
        )
        in_use = gates.run(InUseGate(tools.kube, tools.hosts, gates.cluster.controllers))
        restart = RestartStep(tools.kube, tools.clock, restarted)
        steps.append(PipelineStep(restart, (*own, in_use, *gates.of_cluster()), (*own, *gates.of_controllers())))
    return Pipeline(tuple(steps))
