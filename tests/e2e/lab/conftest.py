"""What the tests of labs share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from upgrader.lab import Lab
from upgrader.lab.registry import find


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a lab that is removed after the test."""
    value = f"e2e-lab-{os.getpid()}"
    yield value
    if find(value):
        Lab.find(value).down()
