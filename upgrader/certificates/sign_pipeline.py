"""The phase of a rotation in which the new CA signs, as a pipeline: everything trusts both CAs before and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upgrader.certificates.gates import ServedGate
from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.certificates.pipeline import Serving, components_to_restart
from upgrader.certificates.sign_steps import KubeletCertificateStep, LeadersBackStep, LeadersStep, SignStep
from upgrader.certificates.trust_pipeline import Rotation
from upgrader.model.cluster import Host
from upgrader.pipeline import Pipeline, PipelineStep

__all__ = ["Signing"]


@dataclass(frozen=True)
class Signing:
    """Inputs of the steps."""

    rotation: Rotation
    keeper: Host
    served: Serving
    renewal: str
    """Identifies the files that each node keeps for the undo of this run."""
    settings: Callable[[], Mapping[str, object]]
    """The fields of kubeadm's configuration that determine a certificate's form."""

    def pipeline(self) -> Pipeline:
        """One controller after the other, then the components that read their kubeconfigs at their start, then the
        kubelets, whose next renewal the new CA then signs. Completed parts are left out. Raises ApiError or HostError.
        """
        rotation, steps = self.rotation, list[PipelineStep]()
        tools, found, on_host = rotation.tools, rotation.found, rotation.on_host
        kubeadm = KubeadmOnHost(tools.hosts, on_host.certificates)
        cluster, controllers = rotation.gates.of_cluster(), rotation.gates.of_controllers()
        for node in found.nodes:
            if node.unsigned(found.old, found.new):
                step = SignStep(on_host, kubeadm, self.keeper, node.host, self.renewal)
                gate = ServedGate(tools.kube, kubeadm, node.host, self.served.certificate, self.served.port)
                served = rotation.gates.run(gate)
                # What undoes it needs no API, and may be what brings the API back.
                steps.append(PipelineStep(step, (served, *cluster), (served, *controllers), undo_needs_api=False))
        if steps or components_to_restart(tools.kube, tools.hosts, rotation.cluster.controllers, {}):
            own, in_use = rotation.own(), rotation.in_use()
            back = PipelineStep(LeadersBackStep(tools.kube, tools.clock), (), (*own, in_use, *controllers))
            leaders = PipelineStep(LeadersStep(tools.kube, tools.clock), (*own, in_use, *cluster), ())
            steps = [back, *steps, leaders]
        for node in found.nodes:
            if node.late or (node.kubelet_by and node.kubelet_by == found.old):
                kubelet = KubeletCertificateStep(
                    on_host, tools.kube, tools.clock, self.keeper, node.host, self.renewal, self.settings
                )
                steps.append(PipelineStep(kubelet, cluster, controllers))
        return Pipeline(tuple(steps))
