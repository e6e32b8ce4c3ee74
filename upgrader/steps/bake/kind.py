"""The bake: a step that changes nothing, and whose gates are held for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from upgrader.model.own_steps import BAKE, KUBEADM_CONFIG, KUBELET_CONFIG
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.steps.one_way import OneWay
from upgrader.steps.step_kind import OwnKind

__all__ = ["BakeKind", "BakeStep"]


@dataclass(frozen=True)
class BakeKind(OwnKind):
    """Builds the bake at the end, where the settings want one and something changes."""

    def behind(self, pipeline: Pipeline) -> Iterator[PipelineStep]:
        """With the gates of all steps."""
        seconds = self.context.settings.bake_seconds
        if seconds and any(item.changes for item in pipeline.steps):
            # Who writes kubeadm's record back, such as GitOps, makes nothing unhealthy that runs.
            gates = tuple(run for run in pipeline.gates if run.gate.name not in (KUBEADM_CONFIG, KUBELET_CONFIG))
            yield PipelineStep(BakeStep(BAKE, seconds), gates, ())


@dataclass(frozen=True)
class BakeStep(OneWay):
    """The end of a run that bakes: what takes minutes to go wrong is still rolled back by the run."""

    name: str
    seconds: float

    def summary(self) -> str:
        return f"check all gates for {self.seconds:.0f} s"

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing to do: its gates do the work."""
