"""The gates that a step of `upgrader.yaml` may have besides the built-in ones."""

from __future__ import annotations

from difflib import get_close_matches
from math import isfinite, nan
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from upgrader.config.section import Duration, Section, Text
from upgrader.model.gate_settings import WorkloadGateKind

__all__ = ["METRIC_TAG", "WORKLOAD_TAG", "AnyGate", "GateSection", "MetricGateSection"]

WORKLOAD_TAG, METRIC_TAG = "(workload)", "(metric)"
"""Names that pydantic puts into error locations; in brackets, so that they can't be confused with keys."""

GATE_KEYS: tuple[WorkloadGateKind, ...] = get_args(WorkloadGateKind)


def _workload(text: object) -> str:
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"{text!r} does not name a workload; write it as NAMESPACE/NAME")
    return "/".join(parts)


def _limit(value: object) -> float:
    try:
        found = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else nan
    except OverflowError:  # an integer of more than 300 digits
        found = nan
    if not isfinite(found):
        raise ValueError(f"{str(value)[:20]!r} is not a number")
    return found


Workload = Annotated[str, BeforeValidator(_workload)]
Limit = Annotated[float, BeforeValidator(_limit, json_schema_input_type=float)]


class GateSection(Section):
    """One further gate: a workload that must be healthy after the step. A rollback of the step waits for the last
    three, too.
    """

    daemonset: Workload | None = Field(default=None, description="A DaemonSet, as NAMESPACE/NAME.")
    deployment: Workload | None = Field(default=None, description="A Deployment, as NAMESPACE/NAME.")
    statefulset: Workload | None = Field(default=None, description="A StatefulSet, as NAMESPACE/NAME.")
    rollout_group: Workload | None = Field(
        default=None,
        description="The StatefulSets with the label `rollout-group: GROUP`, as NAMESPACE/GROUP "
        "([guard](../guard.md#in-an-upgrade)).",
    )
    protector: Workload | None = Field(default=None, description="A PodProtector, as NAMESPACE/NAME.")
    consecutive: int | None = Field(default=None, ge=1, description="Replaces `gates.consecutive` for this gate.")
    interval: Duration | None = Field(default=None, description="Replaces `gates.interval` for this gate.")
    deadline: Duration | None = Field(
        default=None,
        description="Replaces `gates.deadline` for this gate. Empty: `gates.deadline`; for a `rolloutGroup`, at least "
        "30m.",
    )

    @model_validator(mode="after")
    def _one_workload(self) -> GateSection:
        if len(self._named) != 1:
            raise ValueError(f"a gate needs exactly one of the keys {', '.join(GATE_KEYS)}")
        return self

    @property
    def _named(self) -> list[tuple[WorkloadGateKind, str]]:
        values = (self.daemonset, self.deployment, self.statefulset, self.rollout_group, self.protector)
        return [(kind, value) for kind, value in zip(GATE_KEYS, values, strict=True) if value is not None]

    @property
    def names(self) -> tuple[WorkloadGateKind, str]:
        """The key, and its value."""
        return self._named[0]


class MetricGateSection(Section):
    """A [metric gate](../observability.md#metric-gates): a Prometheus query whose value must stay within limits."""

    metric: str = Field(
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        max_length=60,
        description="The gate's name, of lower-case letters, digits and `-`.",
    )
    query: Text = Field(description="A PromQL query that returns one series, such as `sum(rate(…))`.")
    min: Limit | None = Field(default=None, description="The lowest allowed value.")
    max: Limit | None = Field(default=None, description="The highest allowed value.")
    window: Duration = Field(
        default=60.0,
        description="For how long every value since the change must be within the limits.",
        examples=["1m"],
    )
    interval: Duration | None = Field(
        default=None, description="The time between two queries. Empty: `gates.interval`, but at least 5 s."
    )
    deadline: Duration | None = Field(
        default=None, description="Replaces `gates.deadline` for this gate. Empty: `gates.deadline` plus the window."
    )

    @model_validator(mode="after")
    def _passable(self) -> MetricGateSection:
        if self.min is None and self.max is None:
            raise ValueError("a metric gate needs a limit: 'min', 'max' or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"'min' ({self.min:g}) is greater than 'max' ({self.max:g})")
        if self.deadline is not None and self.deadline <= self.window:
            raise ValueError("it would never pass: 'deadline' must be longer than 'window' (1m, unless it is set)")
        return self


def _kind_of_gate(data: Any) -> str:
    keys = [str(key) for key in data] if isinstance(data, dict) else []
    misspelt = any(get_close_matches(key, ["metric", "query"]) for key in keys)
    return METRIC_TAG if misspelt and not set(GATE_KEYS) & set(keys) else WORKLOAD_TAG


AnyGate = Annotated[
    Annotated[GateSection, Tag(WORKLOAD_TAG)] | Annotated[MetricGateSection, Tag(METRIC_TAG)],
    Discriminator(_kind_of_gate),
]
