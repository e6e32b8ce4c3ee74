"""What a kind of step offers. Each kind is a folder beside this module, and one line in `registry.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.model.observed import Observed
from upgrader.model.release import RestorePoint
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline, PipelineStep, Step
from upgrader.steps.context import ImageSource, StepContext
from upgrader.steps.plan import Plan
from upgrader.steps.planned import PlannedStep

__all__ = ["OwnKind", "PlannedKind", "RunStart", "Undoing", "not_named", "preparing"]

P = TypeVar("P", bound=PlannedStep)


@dataclass(frozen=True)
class RunStart:
    """How an upgrade begins."""

    resumed: Collection[str] | None = None
    """The names of the steps of the run that is resumed, which keeps them whatever the settings say now; None: a new
    one.
    """
    bundle: ImageSource | None = None
    """Where images come from that a node lacks."""
    skips: Skips = NO_SKIPS
    """The findings that it skips."""


@dataclass(frozen=True)
class Undoing:
    """A step of a journal that is undone, and the versions between which its run went."""

    step: StepState
    point: RestorePoint
    current: KubernetesVersion | None
    target: KubernetesVersion


@dataclass(frozen=True)
class PlannedKind(Generic[P]):
    """A kind of step that a plan has: how it is planned, built and undone.

    What a planned step of this kind tells of itself (`PlannedStep`) is in the kind's `plan.py`.
    """

    context: StepContext

    name: ClassVar[str]
    """`PlannedStep.kind`"""
    in_pipeline: ClassVar[bool] = False
    """Whether its steps are those that upgrader.yaml lists in `pipeline`; others are the run's to keep once it began.
    """

    def plan(self, plan: Plan, observed: Observed, then: KubernetesVersion | None) -> tuple[PlannedStep, ...]:
        """The steps of `plan`, with those of this kind where they belong among those of the kinds before it. Pure.

        `then`: the version of the next of several hops; None: there is none.
        """
        return plan.steps

    def kept(self, state: RunState, observed: Observed) -> P | None:
        """The step that a begun run has, also where it would not be planned any more; None: it needs none."""
        return None

    def replan(self, planned: P, state: RunState) -> P:
        """The step as it was planned when the run began. Raises UsageError where upgrader.yaml doesn't name it."""
        return planned

    def before(self, plan: Plan) -> Iterable[PipelineStep]:
        """What comes before the first step of the plan, in each run of it."""
        return ()

    def forward(self, planned: P, plan: Plan) -> PipelineStep:
        """The step with its gates."""
        raise NotImplementedError

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """Whether a journal's step is of this kind."""
        raise NotImplementedError

    def undo(self, undoing: Undoing) -> PipelineStep:
        """What undoes a journal's step. Raises UsageError for one that upgrader.yaml doesn't name.

        Anyone with write access there may have written a journal in the cluster or on a controller. It says what to
        restore; the cluster folder says what may change, and which file is run here.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class OwnKind:
    """A kind of step that an upgrade has beside those of its plan, and that changes nothing which runs."""

    context: StepContext

    def before(self, plan: Plan, start: RunStart) -> Iterable[PipelineStep]:
        """What comes before every other step."""
        return ()

    def behind(self, pipeline: Pipeline) -> Iterable[PipelineStep]:
        """What comes after every other step."""
        return ()


def preparing(step: Step) -> PipelineStep:
    """A step that only prepares those that follow."""
    return PipelineStep(step, (), (), changes=False, prepares=True)


def not_named(step: StepState, what: str, by_hand: str = "") -> UsageError:
    """A journal's step that upgrader.yaml has not, or has as another one."""
    return UsageError(
        f"according to the run's journal, step {step.name!r} restores {what}, but upgrader.yaml has no such step",
        remedy="upgrader only undoes steps that upgrader.yaml has. If you know this run, add the step to `pipeline` "
        f"again, and run the same command again; or restore it yourself{by_hand}.",
    )
