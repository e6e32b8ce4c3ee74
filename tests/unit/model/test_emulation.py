"""Which minor is emulated, by `/version` and by flags."""

from __future__ import annotations

import json

import pytest

from upgrader.model.emulation import ServerVersion, compatible_with, emulated_by, emulated_in
from upgrader.model.version import KubernetesVersion

V137 = KubernetesVersion(1, 37, 1)
REPORTED = {
    "gitVersion": "v1.37.1",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
}


def test_version_tells_the_emulated_minor() -> None:
    """A server serves the APIs of the minor that it emulates, whatever its own version is."""
    found = ServerVersion.parse(json.dumps(REPORTED))
    assert found == ServerVersion(V137, (1, 36), (1, 35))
    assert found.serves_as == KubernetesVersion(1, 36, 0)
    assert ServerVersion.parse(json.dumps({**REPORTED, "emulationMinor": "37"})).serves_as == V137
    assert ServerVersion.parse(json.dumps({**REPORTED, "emulationMinor": "36+"})).emulated == (1, 36), "a vendor's"
    assert ServerVersion.parse('{"gitVersion": "v1.33.2"}').serves_as == KubernetesVersion(1, 33, 2)


@pytest.mark.parametrize(
    "text", ["<html>", "[]", "{}", '{"gitVersion": "dev"}', json.dumps({**REPORTED, "emulationMinor": "x"})]
)
def test_odd_answer_is_no_version(text: str) -> None:
    """Whatever answers there, a gate can say that it is unknown."""
    with pytest.raises(ValueError):
        ServerVersion.parse(text)


@pytest.mark.parametrize(
    ("value", "minor"),
    [
        ("1.36", (1, 36)),
        ("v1.36", (1, 36)),
        ("kube=1.36", (1, 36)),
        ("wardle=1.2,kube=1.36", (1, 36)),
        ("wardle=1.2", None),
    ],
)
def test_flag_in_all_its_forms(value: str, minor: tuple[int, int] | None) -> None:
    """As kube-apiserver reads it: of its own component, which is the one without a name."""
    assert emulated_by(["--v=2", f"--emulated-version={value}"]) == minor
    assert compatible_with([f"--min-compatibility-version={value}"]) == minor


def test_manifest_that_emulates() -> None:
    """The flag counts where a Deployment's container has it, and nowhere else."""
    text = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: x}
spec: {template: {spec: {containers: [{name: x, command: [x], args: ["--emulated-version=1.36"]}, {name: y}]}}}
"""
    assert emulated_in(text) == (1, 36)
    assert emulated_in("kind: ConfigMap\nmetadata: {name: x}\ndata: {a: --emulated-version=1.36}\n") is None
    assert emulated_in("") is None
