"""The flags that the built-in charts give Kubernetes' components."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.conftest import Render
from tests.charts.test_kube_apiserver import ONE as APISERVER
from tests.charts.test_kubernetes import VALUES as KUBERNETES
from upgrader.contract.flags import arguments_in, command_line
from upgrader.preflight.flag_lifecycle import known_flags, known_versions
from upgrader.preflight.version_skew import OLDEST

WORKLOADS = [
    ("kube-apiserver", APISERVER, "Deployment", "kube-apiserver"),
    ("kubernetes", KUBERNETES, "Deployment", "kube-controller-manager"),
    ("kubernetes", KUBERNETES, "Deployment", "kube-scheduler"),
    ("kubernetes", KUBERNETES, "DaemonSet", "kube-proxy"),
]


@pytest.mark.parametrize(("chart", "values", "kind", "name"), WORKLOADS)
def test_every_version_knows_the_flags_of_the_charts(
    render: Render, chart: str, values: dict[str, Any], kind: str, name: str
) -> None:
    """Every minor that is supported; and none warns of a flag."""
    container = render(chart, values).container(kind, name, name)
    given = [each for each in arguments_in(command_line(container)) if each.name]
    assert given
    for version in known_versions().values():
        for flag in given if version >= OLDEST else ():
            known = known_flags()[name, flag.name]
            assert known.known_by(version) and not known.deprecated_by(version), f"{version}: --{flag.name}"


@pytest.mark.parametrize(("chart", "values", "kind", "name"), WORKLOADS)
def test_components_emulate_the_older_minor_that_is_given(
    render: Render, chart: str, values: dict[str, Any], kind: str, name: str
) -> None:
    """kube-proxy has no such flag; extra flags win; without the value, the manifest is what it was before."""
    container = render(chart, {**values, "emulatedVersion": "1.36"}).container(kind, name, name)
    given = "--emulated-version=1.36" in container.get("args", ())
    assert given is (name != "kube-proxy")
    assert render(chart, {**values, "emulatedVersion": ""}).text == render(chart, values).text
