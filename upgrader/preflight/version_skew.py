"""Versions comply with the version skew policy: https://kubernetes.io/releases/version-skew-policy/."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.gates.node_health import is_unreachable
from upgrader.model.api_lifecycle import newest_known
from upgrader.model.emulation import minor_text
from upgrader.model.finding import Finding
from upgrader.model.version import KUBELET_MINORS, OLDEST, KubernetesVersion, too_old
from upgrader.preflight.context import PreflightContext

__all__ = ["check_controller_kubelets", "check_target", "check_version"]


def check_version(context: PreflightContext) -> Iterator[Finding]:
    """No downgrade, and no kubelet that is too old or too new for the target, or whose version isn't known."""
    server, target = context.observed.server, context.target
    if target < server:
        yield Finding(
            "version.downgrade",
            "error",
            f"{target} is older than the running {server}",
            "Kubernetes doesn't support downgrades: a newer API server may have stored objects that an older one "
            "can't read.",
            f"Choose {server} or newer (`--to`, or kubernetesVersion in upgrader.yaml).",
        )
    emulated = context.observed.emulated
    if emulated is not None and target.minors_after(server) > 0:
        yield Finding(
            "version.emulating",
            "error",
            f"the control plane is at {server}, but still emulates {minor_text(emulated)}",
            f"Objects are stored in the format of {minor_text(emulated)}, and Kubernetes supports upgrades of one "
            "minor at a time.",
            f"End the emulation first: upgrader finalize. Or choose a version of v{server.major}.{server.minor}.",
        )
    workers = context.observed.kubelets.keys() - context.controllers
    for node, kubelet in sorted(context.observed.kubelets.items()):
        behind = target.minors_after(kubelet)
        if behind < 0:
            # By now it is newer than what runs, too: a restore, or a rollback by hand, leaves it so.
            yield Finding(
                "components.kubelet-newer",
                "error",
                f"the kubelet of {node} ({kubelet}) is newer than {target}",
                "A kubelet must not be newer than the API server. This run neither causes nor fixes this.",
                f"Choose a version from v{kubelet.major}.{kubelet.minor} on, or install an older kubelet there.",
            )
        elif kubelet.minors_after(server) > 0:
            yield Finding(
                "version.kubelet-ahead",
                "warning",
                f"the kubelet of {node} ({kubelet}) is newer than the running API server ({server})",
                "Kubernetes doesn't support this. An upgrade to the kubelet's version fixes it.",
                "Upgrade the control plane before the kubelets.",
            )
        elif behind > KUBELET_MINORS:
            alone = context.leaves_alone(node)
            by = " with the tool that manages it, because `nodes.leftAlone` excludes it from runs" if alone else ""
            down = node in workers and is_unreachable(context.nodes.get(node, {}))
            yield Finding(
                "version.kubelet-older",
                "warning" if down else "error",
                f"the kubelet of {node} ({kubelet}) is {behind} minor versions behind {target}",
                f"A kubelet may be at most {KUBELET_MINORS} minor versions behind the API server."
                + (" The node is down; once it returns, its kubelet isn't supported." if down else ""),
                f"Before it comes back: kubectl delete node {node}, upgrade its kubelet, and join it again."
                if down
                else f"Upgrade the kubelet of {node} first{by}.",
            )
    yield from _unknown_kubelets(context)


def _unknown_kubelets(context: PreflightContext) -> Iterator[Finding]:
    """Kubelets that report something other than a Kubernetes version. KWOK's and Virtual Kubelets have no container
    runtime, and Kubernetes has no skew rule for them.
    """
    for name, node in sorted(context.nodes.items()):
        info = (node.get("status") or {}).get("nodeInfo") or {}
        reported = str(info.get("kubeletVersion") or "")
        if not reported or KubernetesVersion.known(reported) is not None:
            continue
        real = "://" in str(info.get("containerRuntimeVersion") or "")
        yield Finding(
            "version.kubelet-unknown",
            "unknown" if real else "warning",
            f"the kubelet of {name} reports '{reported}', which is not a Kubernetes version",
            "It is unknown whether it works with the target."
            if real
            else "It has no container runtime, so it isn't a Kubernetes kubelet (it might be KWOK or a Virtual "
            "Kubelet): check its documentation for the target. Runs don't upgrade it.",
            f"Install a released kubelet on {name}." if real else "",
        )


def check_target(target: KubernetesVersion) -> Iterator[Finding]:
    """The target is a version that upgrader knows: as new as its charts need, and not newer than its table of APIs."""
    newest = newest_known()
    if (target.major, target.minor) > newest:
        yield Finding(
            "version.not-known",
            "unknown",
            f"it is unknown whether {target} serves the APIs of the releases",
            f"This version of upgrader knows Kubernetes up to v{newest[0]}.{newest[1]}.",
            "Choose an older version, or install a newer upgrader.",
        )
    if too_old(target):
        yield Finding(
            "version.too-old",
            "error",
            f"{target} is older than the versions that upgrader supports",
            f"Its charts (`kubeVersion`) and checks require Kubernetes {OLDEST.without_patch} or later.",
            f"Choose {OLDEST.without_patch} or newer.",
        )


def check_controller_kubelets(context: PreflightContext) -> Iterator[Finding]:
    """The controllers' kubelets are as new as the charts' pods need them."""
    for host in context.cluster.controllers:
        kubelet = context.observed.kubelets.get(host.name)
        if kubelet is not None and too_old(kubelet):
            yield Finding(
                "kubelets.too-old",
                "error",
                f"the kubelet of controller {host.name} ({kubelet}) is older than the charts support",
                f"The control plane's pods require kubelets of {OLDEST.without_patch} or later. An older one might "
                "drop fields that a restart without failed requests needs, such as `preStop.sleep`.",
                f"Upgrade the kubelet of {host.name} to {OLDEST.without_patch} or newer first, but not beyond the "
                "running kube-apiserver.",
            )
