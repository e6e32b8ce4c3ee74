"""What is asked of a cluster's API server, and that an answer that is none is an error of that cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.errors import ApiError
from upgrader.fleet import clusters
from upgrader.fleet.clusters import Answer, ask_cluster
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion.release("v1.37.1")


@pytest.mark.parametrize(
    "said", [None, {}, {"metadata": None}, {"metadata": []}, {"metadata": {}}, {"metadata": {"uid": 1}}]
)
def test_answer_that_is_none(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that is none, or lies, is named; it is known which cluster it is of only by a UID."""
    answers = [said, {"metadata": {"uid": "u1"}}]

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Any]:
        yield SimpleNamespace(get=lambda *_: answers.pop(0))

    monkeypatch.setattr(clusters, "open_api", open_api)
    monkeypatch.setattr(clusters, "server_version", lambda _: SimpleNamespace(binary=TARGET))
    with pytest.raises(ApiError, match="isn't known which cluster it is of"):
        ask_cluster(Path("k"))
    assert ask_cluster(Path("k")) == Answer("u1", TARGET)
