"""The benchmark separates a run's own overhead from the time of Helm, Kubernetes and the gates."""

from __future__ import annotations

import pytest

from bench.parts import parts_of_run


def test_overhead_is_what_is_left() -> None:
    """Overhead is the wall time without the apply seconds and the slowest gate of every step."""
    steps = [
        {"name": "pod-checkpointer", "apply_seconds": 10.0, "gates": [{"seconds": 2.0}, {"seconds": 5.0}]},
        {"name": "kube-apiserver", "apply_seconds": 30.0, "gates": []},
    ]
    *others, own = parts_of_run({"steps": steps}, 50.0)
    assert [part.seconds for part in others] == [10.0, 5.0, 30.0, 0.0]
    assert own.seconds == pytest.approx(5.0)
    assert "10.0%" in own.name
