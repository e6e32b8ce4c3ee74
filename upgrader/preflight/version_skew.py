"""Version skew: https://kubernetes.io/releases/version-skew-policy/."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext

__all__ = ["KUBELET_MINORS", "check_version"]

KUBELET_MINORS = 3
"""How many minor versions a kubelet may be behind the API server."""


def check_version(context: PreflightContext) -> Iterator[Finding]:
    """No downgrade, one minor version at a time, and no kubelet that is too old or too new for the target."""
    server, target = context.observed.server, context.target
    if target < server:
        yield Finding(
            "version.downgrade",
            "error",
            f"{target} is older than the running {server}",
            "Kubernetes has no downgrade: a newer API server may have stored objects that an older one can't read.",
            f"Choose {server} or newer (`--to`, or kubernetesVersion in upgrader.yaml).",
        )
    if target.minors_after(server) > 1:
        step = f"v{server.major}.{server.minor + 1}"
        yield Finding(
            "version.skip",
            "error",
            f"from {server} to {target} is more than one minor version",
            "Kubernetes supports upgrades by one minor version at a time.",
            f"Go to a {step} release first.",
        )
    for node, kubelet in sorted(context.observed.kubelets.items()):
        behind = target.minors_after(kubelet)
        if behind < 0:
            yield Finding(
                "version.kubelet-newer",
                "error",
                f"the kubelet of {node} ({kubelet}) is newer than {target}",
                "A kubelet must not be newer than the API server.",
                f"Choose a version from v{kubelet.major}.{kubelet.minor} on.",
            )
        elif behind > KUBELET_MINORS:
            yield Finding(
                "version.kubelet-older",
                "error",
                f"the kubelet of {node} ({kubelet}) is {behind} minor versions behind {target}",
                f"A kubelet may be {KUBELET_MINORS} minor versions behind the API server at most.",
                f"Upgrade the kubelet of {node} first.",
            )
