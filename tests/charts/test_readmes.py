"""The charts' READMEs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHARTS = sorted(path.parent for path in (ROOT / "charts").glob("*/Chart.yaml"))


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_readme_is_what_the_values_say(chart: Path) -> None:
    """Every value has a comment, and README.md is up to date; `make docs` updates it."""
    spec = importlib.util.spec_from_file_location("chart_readme", ROOT / "scripts" / "chart_readme.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (chart / "README.md").read_text() == module.render(chart)
