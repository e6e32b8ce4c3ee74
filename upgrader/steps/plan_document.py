"""A plan as it is shown, to people and to programs; `docs/reference/plan.schema.json` describes its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Self

from upgrader.model.emulation import minor_of, minor_text
from upgrader.model.finding import Finding
from upgrader.model.images import other_versions
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan
from upgrader.steps.step_document import HostChanges, StepDocument

__all__ = ["FORMAT_VERSION", "Emulation", "HopDocument", "PlanDocument"]

FORMAT_VERSION: Literal["1.6"] = "1.6"
"""Of the JSON: the second number goes up when fields are added, the first when a reader would misunderstand them."""


@dataclass(frozen=True)
class Emulation:
    """The older minor that kube-apiserver, kube-controller-manager and kube-scheduler emulate after the run, until
    `upgrader finalize`.
    """

    version: str
    """Such as `1.36`."""
    begins: bool
    """Whether it begins with this run; otherwise it goes on."""
    not_covered: tuple[str, ...]
    """What is not emulated, each in a sentence."""

    @classmethod
    def of(cls, plan: Plan) -> Emulation | None:
        """What a plan emulates."""
        if plan.emulated is None:
            return None
        version = minor_text(plan.emulated)
        return cls(version, minor_of(plan.current) == plan.emulated, _not_covered(plan.target, version))

    def __str__(self) -> str:
        verb = "starts to emulate" if self.begins else "continues to emulate"
        return (
            f"the control plane {verb} {self.version}; `upgrader finalize` ends the emulation: the point of no return"
        )


def _not_covered(target: KubernetesVersion, version: str) -> tuple[str, ...]:
    return (
        f"Flags: only those of {target} exist; a component with a removed flag exits immediately (check `flags`).",
        f"kube-proxy: emulates nothing, and runs as {target}.",
        f"Kubelets: don't upgrade beyond {version} before `upgrader finalize`: newer kubelets prevent a rollback.",
        "etcd, CoreDNS and everything else: not affected.",
    )


@dataclass(frozen=True)
class HopDocument:
    """What the run to one version would change, and what the checks found. No secret has its value in it."""

    current: KubernetesVersion
    target: KubernetesVersion
    digest: str
    """Equal digests mean the same run from the same start, but for secrets' values."""
    blocked: bool
    """Whether a check forbids the run."""
    point_of_no_return: str | None
    """The first step that nothing rolls back: once it has begun, neither it nor a step before it is rolled back."""
    steps: tuple[StepDocument, ...]
    findings: tuple[Finding, ...]
    emulation: Emulation | None = None

    @property
    def mixed(self) -> tuple[str, ...]:
        """As the plan's."""
        return other_versions((change for step in self.steps for change in step.images), self.current)

    @property
    def start(self) -> str:
        """What the cluster runs before: the API server's version; a mixed cluster is called so."""
        return f"{self.current}, mixed with {', '.join(self.mixed)}" if self.mixed else str(self.current)

    @property
    def downgrade(self) -> bool:
        """Whether it leads to an older version. Helm calls what it does to a release an upgrade then, too."""
        return self.target < self.current

    @classmethod
    def of(
        cls,
        plan: Plan,
        findings: Sequence[Finding],
        usual: Mapping[str, float],
        hosts: Mapping[str, HostChanges] = MappingProxyType({}),
    ) -> Self:
        """How a plan is shown; `usual` has the seconds that steps took before, `hosts` what playbooks would change, by
        the steps' names.
        """
        steps = tuple(step.document(usual.get(step.name), hosts.get(step.name)) for step in plan.every_step)
        return cls(
            plan.current,
            plan.target,
            plan.digest,
            any(finding.blocking for finding in findings),
            next((step.name for step in steps if step.undo.how == "none"), None),
            steps,
            tuple(findings),
            Emulation.of(plan),
        )


@dataclass(frozen=True)
class PlanDocument(HopDocument):
    """The hop that a run begins with, and the later ones, where the target is several minors ahead."""

    ahead: tuple[HopDocument, ...] = ()
    """As far as they are known now: each is planned and checked again when it begins."""
    format_version: Literal["1.6"] = FORMAT_VERSION
    offline: Literal[False] = False

    @property
    def to_do(self) -> bool:
        """Whether a run would change something that runs, on this hop or on a later one."""
        return any(step.to_do for hop in self.hops for step in hop.steps)

    @property
    def hops(self) -> tuple[HopDocument, ...]:
        """All of them, in their order."""
        return (self, *self.ahead)
