"""What several tests of the checkpointer begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.api_server import Node
from upgrader.in_cluster.checkpointer.logs import LOG


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node; its servers are stopped after the test."""
    node = Node(tmp_path)
    yield node
    for server in node.servers:
        server.close()


@pytest.fixture(autouse=True)
def log() -> Iterator[None]:
    """The checkpointer's log is as it was before the test, as `run` sets it up for the whole process."""
    handlers, level, propagate = list(LOG.handlers), LOG.level, LOG.propagate
    yield
    LOG.handlers[:] = handlers
    LOG.setLevel(level)
    LOG.propagate = propagate
