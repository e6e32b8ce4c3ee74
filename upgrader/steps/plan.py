"""A plan: what a run would change, before it changes anything. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, TypeVar

from upgrader.engine.execution.input_files import canonical
from upgrader.model.api_lifecycle import Minor
from upgrader.model.event import StepInput
from upgrader.model.images import change_minor, other_versions
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_document import NOTHING_TO_UNDO, HostChanges, StepDocument

__all__ = ["OwnStep", "Plan", "changed_inputs", "observed_after", "planned_of", "step_inputs"]

P = TypeVar("P", bound=PlannedStep)


@dataclass(frozen=True)
class OwnStep:
    """A step that a run has beside those of upgrader.yaml: it prepares them, frees a release for them, or bakes."""

    name: str
    kind: Literal["preparation", "free", "bake"]
    summary: str

    @property
    def described(self) -> str:
        """The same as of a planned one."""
        return f"{self.kind} {self.name}: {self.summary}"

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """Its name says it all."""
        return ()

    def document(self, usual_seconds: float | None, hosts: HostChanges | None = None) -> StepDocument:
        """How it is shown."""
        action = self.kind if self.kind != "preparation" else "prepare"
        return StepDocument(self.name, self.kind, action, self.summary, NOTHING_TO_UNDO, usual_seconds, (), (), hosts)


@dataclass(frozen=True)
class Plan:
    """Everything that `run` will do, in order."""

    current: KubernetesVersion
    target: KubernetesVersion
    steps: tuple[PlannedStep, ...]
    """Those of upgrader.yaml."""
    emulated: Minor | None = None
    """The older minor that the components emulate afterwards; None: their own."""
    before: tuple[OwnStep, ...] = ()
    """The run's own steps that come before `steps`."""
    after: tuple[OwnStep, ...] = ()
    """Those that come after `steps`."""

    @property
    def every_step(self) -> tuple[PlannedStep | OwnStep, ...]:
        """Each step of the run, in its order."""
        return (*self.before, *self.steps, *self.after)

    @property
    def mixed(self) -> tuple[str, ...]:
        """The components that now have another version than kube-apiserver: an upgrade was left in its middle."""
        return other_versions((change for step in self.steps for change in step.images), self.current)

    @property
    def another_minor(self) -> bool:
        """Whether any component gets another minor: kube-apiserver, or one that an upgrade has left behind."""
        return self.target.minors_after(self.current) != 0 or change_minor(
            change for step in self.steps for change in step.images
        )

    @property
    def digest(self) -> str:
        """A fingerprint of the current and the planned state: equal digests mean the same run from the same start.

        Without the values of secrets: a reader of the digest could test guesses.
        """
        parts = [str(self.current), str(self.target)]
        for step in self.every_step:
            parts += [step.name, *step.fingerprint]
        return _digest(parts)[:16]

    @property
    def changes_digest(self) -> str:
        """A fingerprint of what the steps of upgrader.yaml change, whichever nodes there are: they come and go while a
        fleet's campaign waits, and the change that was approved is the same. Without the values of secrets, too.
        """
        parts = [str(self.current), str(self.target)]
        for step in self.steps:
            parts += [step.name, *step.changes_fingerprint]
        return _digest(parts)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def planned_of(plan: Plan | None, planned: type[P]) -> tuple[P, ...]:
    """The steps of one kind, in the plan's order; () without a plan."""
    return tuple(step for step in (plan.steps if plan else ()) if isinstance(step, planned))


def own_steps(plans: Mapping[str, Plan], planned: type[P]) -> dict[str, P]:
    """The steps of one kind by name, each as the plan under its own name has it."""
    return {name: step for name, plan in plans.items() for step in planned_of(plan, planned) if step.name == name}


def observed_after(plan: Plan, before: Observed) -> Observed:
    """What would be observed once the plan was run."""
    found = reduce(lambda observed, step: step.once_done(observed), plan.steps, before)
    nodes = {name: replace(node, mark=None) for name, node in found.nodes.items()}
    return replace(found, server=plan.target, emulated=plan.emulated, nodes=nodes)


def step_inputs(plan: Plan) -> tuple[StepInput, ...]:
    """A digest of the inputs of each step that has any. Raises UsageError for what can't be read."""
    inputs = ((step.name, step.inputs()) for step in plan.steps)
    return tuple(
        StepInput(name, hashlib.sha256(canonical(parts).encode()).hexdigest()) for name, parts in inputs if parts
    )


def changed_inputs(before: Iterable[StepInput], now: Iterable[StepInput]) -> tuple[str, ...]:
    """The steps whose inputs differ, by name; steps that only one side has are not compared."""
    digests = {item.step: item.digest for item in now}
    return tuple(item.step for item in before if digests.get(item.step, item.digest) != item.digest)
