"""What the tests of labs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.lab_commands import free_name


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a lab that is removed after the test."""
    with free_name() as value:
        yield value
