"""The real side of the contracts: a lab's cluster folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def lab_folder(request: pytest.FixtureRequest) -> Path:
    """The folder of a running cluster: $UPGRADER_LAB, while you write an adapter, or the tests' own lab."""
    named = os.environ.get("UPGRADER_LAB")
    if named:
        return Path(named).resolve()
    folder: Path = request.getfixturevalue("cluster").folder
    return folder
