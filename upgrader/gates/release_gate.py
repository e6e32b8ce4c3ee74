"""Gates of a release whose manifest can be read only once there is an API again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from upgrader.errors import ApiUnavailable, HelmError
from upgrader.model.outcome import Verdict, VerdictKind, holds, unknown
from upgrader.pipeline import GateRun
from upgrader.ports import Helm

__all__ = ["ReleaseGate"]


@dataclass
class ReleaseGate:
    """All gates of a release pass, as the manifest of its newest revision defines them.

    A release that isn't installed holds with `optional`: there is nothing then that could be unhealthy.
    """

    release: str
    namespace: str
    helm: Helm
    gates: Callable[[str], tuple[GateRun, ...]]
    optional: bool = False
    _manifests: dict[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"release/{self.release}"

    def check(self) -> Verdict:
        try:
            history = self.helm.history(self.release, self.namespace)
            if not history and self.optional:
                return holds(f"release {self.release} is not installed")
            manifest = self._manifest(history[-1].number) if history else ""
        except (HelmError, ApiUnavailable) as error:
            return unknown(f"release {self.release}: {error.message}", remedy=error.remedy)
        see = f"Check what changed the release: helm history {self.release} -n {self.namespace}"
        if not history:
            return unknown(f"release {self.release} is not installed", remedy=see)
        if history[-1].status != "deployed":
            newest = history[-1]
            return unknown(f"release {self.release}: revision {newest.number} is {newest.status}", remedy=see)
        reasons = []
        for item in self.gates(manifest):
            verdict = item.gate.check()
            if verdict.kind is not VerdictKind.HOLDS:
                return verdict
            reasons.append(verdict.reason)
        return holds(f"release {self.release} is at revision {history[-1].number}; {'; '.join(reasons)}")

    def _manifest(self, revision: int) -> str:
        if revision not in self._manifests:
            self._manifests[revision] = self.helm.manifest(self.release, self.namespace, revision)
        return self._manifests[revision]
