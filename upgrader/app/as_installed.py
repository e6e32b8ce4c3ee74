"""The control plane as its releases have it, for commands that change on which controllers it runs, and not what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upgrader.adopt.joined import deployed_version, running_version
from upgrader.app.wiring import Session
from upgrader.model.emulation import emulated_in, minor_of
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan

__all__ = ["Installed", "observe_installed"]

_API_SERVER = "kube-apiserver"
_DEPLOYMENTS = {"kubernetes": "kube-controller-manager"}
"""Of a release that may have another version than kube-apiserver's, the Deployment that says which."""


@dataclass(frozen=True)
class Installed:
    """What is installed, whichever instance of kube-apiserver has answered."""

    version: KubernetesVersion
    """That of kube-apiserver's release."""
    observed: Observed

    def plans(self, session: Session) -> Mapping[str, Plan]:
        """Each release's plan by its name, at the version that the release has: in the middle of an upgrade, they
        differ. Raises HelmError for values that a chart's schema refuses.
        """
        plan = session.at(self.version).plan(self.observed)
        found = {step.name: plan for step in plan.steps}
        for name, deployment in _DEPLOYMENTS.items():
            version = deployed_version(session.tools.kube, deployment)
            if version not in (None, self.version):
                found[name] = session.at(version).plan(self.observed)
        return found


def observe_installed(session: Session) -> Installed:
    """Read it. Raises Blocked where the cluster was not adopted.

    Behind a load balancer, an instance may answer that no release has: of a controller that joins, or that was left out
    while it was down. What that one is, and what it emulates, says nothing of the releases.
    """
    version = running_version(session.tools.kube)
    observed = session.observe()
    release = observed.releases.get(_API_SERVER)
    found = (observed.emulated, emulated_in(release.manifest) if release else None)
    older = [minor for minor in found if minor is not None and minor < minor_of(version)]
    return Installed(version, replace(observed, server=version, emulated=min(older, default=None)))
