"""Distinguishes errors in a chart or its values from those of Helm or the API, by Helm's message."""

from __future__ import annotations

import re

from upgrader.errors import ChartRefused, HelmError
from upgrader.model.release import ReleaseSpec

__all__ = ["refusal"]

_OF_THE_CHART = re.compile(
    r"values don't meet the specifications|execution error at \(|parse error at|parse error on |executing \""
    r"|error converting YAML to JSON|chart requires kubeVersion|Chart\.yaml file is missing|cannot load values"
    r"|missing in charts/ directory|nil pointer evaluating|error calling "
)


def refusal(spec: ReleaseSpec, error: HelmError) -> HelmError:
    """The same error; as ChartRefused if the run's chart or values caused it."""
    if not _OF_THE_CHART.search(error.message):
        return error
    remedy = f"Correct the chart or its values, then check them: helm template {spec.name} {spec.chart} --values FILE"
    return ChartRefused(error.message, remedy=remedy)
