"""Adoption and its undo as pipelines: the same engine, gates and journal as an upgrade."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from upgrader.adopt.accept_queues import ResetQueuesStep, SetQueuesStep
from upgrader.adopt.addon_originals import Originals, SaveOriginalsStep
from upgrader.adopt.addon_originals_check import taken_over
from upgrader.adopt.facts import ControllerFacts, KubeadmFacts
from upgrader.adopt.kubeconfigs_step import KubeconfigsStep
from upgrader.adopt.leaders_api import OwnServer
from upgrader.adopt.manifest_step import PortSharingStep, RestoreStep, RetireStep, StaticPods, shares_port
from upgrader.adopt.one_by_one import InTurnStep, WithdrawStep
from upgrader.adopt.release_step import ForgetCheckpointsStep, NewCheckpointsStep, TakeOverStep, UninstallStep
from upgrader.adopt.running_addons import RunningAddons
from upgrader.model.cluster import Cluster, Host
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.ports import Kind, Tools
from upgrader.steps.release.helm_release import ChartStep

__all__ = ["LEADERS", "adopt_pipeline", "adopting", "needs_port_sharing", "undo_pipeline"]

LEADERS = ("kube-controller-manager", "kube-scheduler")


def needs_port_sharing(controllers: Sequence[ControllerFacts]) -> tuple[Host, ...]:
    """The controllers whose static kube-apiserver doesn't share its port, and must be restarted once."""
    return tuple(
        controller.host
        for controller in controllers
        if (pod := controller.active.get("kube-apiserver")) and not shares_port(pod.flags)
    )


def adopting(
    cluster: Cluster, tools: Tools, version: KubernetesVersion, facts: KubeadmFacts
) -> Mapping[str, Callable[[ChartStep], Step]]:
    """How adoption installs releases: one kube-apiserver after the other, and over kubeadm's own objects."""
    originals = Originals(tools.kube, tools.hosts, cluster.controllers)
    managed = _managed(facts)
    return {
        "kube-apiserver": lambda chart: InTurnStep(chart, tools.kube, len(cluster.controllers)),
        "kubernetes": lambda chart: TakeOverStep(replace(chart, take_ownership=True), originals, version, managed),
    }


def adopt_pipeline(
    charts: Pipeline,
    facts: KubeadmFacts,
    cluster: Cluster,
    tools: Tools,
    version: KubernetesVersion,
    always: tuple[GateRun, ...],
    kubeconfigs: Sequence[OwnServer] = (),
) -> Pipeline:
    """Port sharing where it is missing, the releases in their order, each static pod retired once it is replaced.

    `charts` are the steps of the three releases, wrapped by `adopting`; `always` gates the steps without own gates;
    `kubeconfigs` are those that the charts' pods need changed.
    kube-apiserver's static pod is retired only once the checkpointer has a checkpoint of its successor.
    """
    checkpointer, api_server, kubernetes = (item for item in charts.steps if item.step.name in BUILT_IN_CHARTS)
    pods = StaticPods(tools.hosts, tools.kube, tools.clock, cluster.controllers, version, served=facts.client_addresses)
    restart = needs_port_sharing(facts.controllers)
    steps: list[PipelineStep] = []
    if restart:
        steps.append(_gated(PortSharingStep(tools.hosts, tools.kube, tools.clock, restart), always))
    steps += [
        _gated(SaveOriginalsStep(Originals(tools.kube, tools.hosts, cluster.controllers), _managed(facts)), ()),
        # Before the first kube-apiserver that ends while another one listens.
        _gated(SetQueuesStep(tools.hosts, cluster.controllers), ()),
        # Before what makes them, so that they are removed after it was.
        _gated(NewCheckpointsStep(tools.hosts, tools.helm, cluster.controllers), ()),
        checkpointer,
        replace(api_server, gates=api_server.gates + checkpointer.gates),
        # Its undo restores the API itself, and works over SSH.
        replace(
            _gated(RetireStep("retire kube-apiserver", pods, ("kube-apiserver",)), api_server.gates),
            undo_needs_api=False,
        ),
        *([_gated(KubeconfigsStep(tools.hosts, kubeconfigs), ())] if kubeconfigs else []),
        kubernetes,
        _gated(RetireStep("retire controllers", pods, LEADERS), kubernetes.gates),
    ]
    return Pipeline(tuple(steps))


def undo_pipeline(
    cluster: Cluster,
    tools: Tools,
    version: KubernetesVersion,
    always: tuple[GateRun, ...],
    addons: tuple[GateRun, ...],
    images: Mapping[str, str],
    running: RunningAddons,
) -> Pipeline:
    """Everything back to kubeadm's static pods: each is running again before its replacement is removed.

    The checkpointer is removed before kube-apiserver's release, so that it can't mistake that removal for a failure.
    `addons` are the gates of kube-proxy and CoreDNS, which roll back to what kubeadm made. `images` are those that run
    now, by component: whatever the retired manifests name, no older program is started. `running`: kube-proxy and
    CoreDNS as the release has them.
    """
    pods = StaticPods(tools.hosts, tools.kube, tools.clock, cluster.controllers, version, images=images)
    originals = Originals(tools.kube, tools.hosts, cluster.controllers)
    withdraw = (_gated(WithdrawStep(tools.kube, tools.clock), always),) if len(cluster.controllers) > 1 else ()
    uninstall = UninstallStep("kubernetes", tools.helm, originals, version, running)
    return Pipeline(
        (
            _gated(RestoreStep("restore controllers", pods, LEADERS), always),
            _gated(uninstall, addons + always),
            _gated(RestoreStep("restore kube-apiserver", pods, ("kube-apiserver",)), always),
            _gated(UninstallStep("pod-checkpointer", tools.helm), always),
            _gated(ForgetCheckpointsStep(tools.hosts, cluster.controllers), always),
            *withdraw,
            _gated(UninstallStep("kube-apiserver", tools.helm), always),
            _gated(ResetQueuesStep(tools.hosts, cluster.controllers), always),
        )
    )


def _managed(facts: KubeadmFacts) -> tuple[tuple[Kind, str], ...]:
    return taken_over(proxy=facts.proxy_daemonset is not None, dns=facts.dns_deployment is not None)


def _gated(step: Step, gates: tuple[GateRun, ...]) -> PipelineStep:
    return PipelineStep(step, gates, gates)
