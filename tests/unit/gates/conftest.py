"""What every gate's tests start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.model.cluster import Cluster, Host


@pytest.fixture
def kube() -> FakeKube:
    """An API server without any object."""
    return FakeKube()


@pytest.fixture
def clock() -> FakeClock:
    """The first of January 2026."""
    return FakeClock()


@pytest.fixture
def cluster() -> Cluster:
    """Two controllers and a worker."""
    folder = Path("/cluster")
    return Cluster(
        folder=folder,
        kubeconfig=folder / "kubeconfig",
        context="",
        inventory=folder / "hosts.yml",
        controllers=(Host("controller-1", "10.0.0.11"), Host("controller-2", "10.0.0.12")),
        workers=(Host("worker-1", "10.0.0.31"),),
    )
