"""`upgrader run --plan`: what is handed on to the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from upgrader.cli import run
from upgrader.cli.main import cli
from upgrader.errors import Inhibited
from upgrader.model.version import KubernetesVersion

TO = KubernetesVersion(1, 37, 1)


@pytest.mark.parametrize("with_plan", [True, False])
def test_saved_plan_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_plan: bool) -> None:
    """With and without `--plan`: the run is bound to that file, or to nothing."""
    seen: list[tuple[Any, Any]] = []
    file = tmp_path / "plan.json"
    file.write_text("{}")

    @contextmanager
    def propose(_folder: Path, target: Any, _front_end: Any, *, saved_in: Any, **_named: Any) -> Iterator[None]:
        seen.append((target, saved_in))
        if seen:
            raise Inhibited("not today")
        yield

    monkeypatch.setattr(run, "propose_upgrade", propose)
    CliRunner().invoke(cli, ["run", "--to", str(TO), *(["--plan", str(file)] if with_plan else [])])
    assert seen == [(TO, file if with_plan else None)]
