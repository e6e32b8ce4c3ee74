"""One version number, from one place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from upgrader import __version__

CHARTS = Path(__file__).parents[3] / "charts"


@pytest.mark.parametrize("chart", sorted(path.parent.name for path in CHARTS.glob("*/Chart.yaml")))
def test_charts_have_the_version_of_the_package(chart: str) -> None:
    """A release's charts, and the tag of the pod-checkpointer's image in its chart, are named as the wheel is."""
    described = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    assert described["version"] == __version__
    if chart == "pod-checkpointer":
        assert described["appVersion"] == __version__
    if chart in ("kube-apiserver", "kubernetes"):
        assert "appVersion" not in described, "which version runs is a value, and `helm list` would show another one"
