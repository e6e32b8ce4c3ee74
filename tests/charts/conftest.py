"""Charts, rendered by the real Helm without a cluster."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from upgrader.adapters.helm import find_helm

CHARTS = Path(__file__).parents[2] / "charts"
Manifest = Mapping[str, Any]


class Rendered:
    """The objects of a chart, by kind and name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.objects: tuple[Manifest, ...] = tuple(
            item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item
        )  # ten times as fast as the one in Python

    def get(self, kind: str, name: str) -> Any:
        """One object; fails when there is none."""
        return next(o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name)

    def names(self, kind: str) -> set[str]:
        """The names of all objects of a kind."""
        return {o["metadata"]["name"] for o in self.objects if o["kind"] == kind}

    def pod(self, kind: str, name: str) -> Any:
        """The pod template of a workload."""
        return self.get(kind, name)["spec"]["template"]

    def container(self, kind: str, workload: str, name: str) -> Any:
        """A container of a workload."""
        return next(c for c in self.pod(kind, workload)["spec"]["containers"] if c["name"] == name)

    def flags(self, kind: str, workload: str, container: str) -> dict[str, list[str]]:
        """The flags of a container: name → its values, in order."""
        flags: dict[str, list[str]] = {}
        for arg in self.container(kind, workload, container)["args"]:
            name, _, value = arg.removeprefix("--").partition("=")
            flags.setdefault(name, []).append(value)
        return flags


class Refused(Exception):
    """Helm refused to render; the message is Helm's."""


Render = Callable[..., Rendered]

_REQUIRED: Mapping[str, Mapping[str, Any]] = {
    "guard": {"image": {"repository": "registry.example/guard"}},
    "pod-checkpointer": {"image": {"repository": "registry.example/pod-checkpointer"}},
}
"""Values that have no default, for tests that don't set them."""


@pytest.fixture(scope="session")
def render() -> Render:
    """`render(chart, values, namespace)`: the rendered chart; raises Refused with Helm's message."""
    helm = str(find_helm())

    @cache
    def text(chart: str, given: str, namespace: str) -> str:
        command = [helm, "template", chart, str(CHARTS / chart), "--namespace", namespace]
        command += ["--kube-version", "v1.36.3", "--values", "-"]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def work(chart: str, values: Mapping[str, Any] | None = None, namespace: str = "kube-system") -> Rendered:
        return Rendered(text(chart, json.dumps({**_REQUIRED.get(chart, {}), **(values or {})}), namespace))

    return work


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """Scripts begin as in a container. What nohup, or a shell that runs pytest in the background, ignores would stay
    ignored in them: a shell can't trap that.
    """
    ignored = [
        each for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP) if signal.getsignal(each) == signal.SIG_IGN
    ]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    yield
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)
