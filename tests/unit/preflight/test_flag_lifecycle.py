"""The tables of flags and feature gates: how they are made from Kubernetes' sources, and what they say."""

from __future__ import annotations

import json

import pytest

from scripts.flag_lifecycle import Minor, render
from scripts.go_gates import client_gates_in, gates_in
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.flag_lifecycle import known_flags, known_gates, known_versions

V = KubernetesVersion

CLIENT = """\
const (
\t// Comes first.
\tFirst Feature = "FirstGate"

\tSecond Feature = "Second"
)

var defaultVersionedKubernetesFeatureGates = map[Feature]VersionedSpecs{
\tFirst: {
\t\t{Version: version.MustParse("1.33"), Default: true, PreRelease: Beta},
\t\t{Version: version.MustParse("1.36"), Default: true, PreRelease: GA, LockToDefault: true},
\t},
\tSecond: {Default: false, PreRelease: Alpha},
}
"""


def test_gates_of_client_go_are_read() -> None:
    """Constants stand for names; one line, several, and older sources without versions."""
    gates = client_gates_in(CLIENT)
    assert gates_in(gates, 35) == {"FirstGate": "Beta", "Second": "Alpha"}
    assert gates_in(gates, 36) == {"FirstGate": "GA true", "Second": "Alpha"}


def test_gate_of_client_go_that_can_not_be_read_ends_it() -> None:
    """Left out, it would be taken for an unknown one, and block runs."""
    with pytest.raises(ValueError, match="Second can't be read"):
        client_gates_in(CLIENT.replace("\tSecond: {", "\tSecond: some("))


def test_stage_is_the_newest_that_has_begun() -> None:
    """The list also has stages of the past, in any order, and some of the future."""
    specs = [
        {"version": version, "default": default, "lockToDefault": locked, "preRelease": stage}
        for version, default, locked, stage in (
            ("1.36", True, True, "GA"),
            ("1.9", False, False, "Alpha"),
            ("1.10", True, False, "Beta"),
        )
    ]
    listed = [{"name": "A", "versionedSpecs": specs}]
    assert [gates_in(listed, minor)["A"] for minor in (8, 9, 35, 36)] == ["GA true", "Alpha", "Beta", "GA true"]


def test_tables_tell_what_changes() -> None:
    """One flag or gate in a line, so that a change can be reviewed; a deprecation that was taken back is none."""
    key, back, gone, late = ("x", "deprecated"), ("x", "back"), ("x", "gone"), ("x", "late")
    minors = {
        32: Minor({key: None, back: "soon", gone: "use y"}, {"A": "Alpha", "B": "Beta"}),
        33: Minor({key: "at last", back: None, late: None}, {"A": "Alpha", "C": "Alpha"}),
        34: Minor({key: "use z", back: None, late: None}, {"A": "GA true", "C": "Alpha"}),
    }
    text = render(minors, ["v1.32.9", "v1.33.5", "v1.34.1"])
    read = json.loads(text)
    assert read["versions"] == ["v1.32.9", "v1.33.5", "v1.34.1"]
    assert read["flags"] == [
        {"component": "x", "flag": "back"},
        {"component": "x", "flag": "deprecated", "deprecated": "1.33", "message": "use z"},
        {"component": "x", "flag": "gone", "removed": "1.33", "deprecated": "1.32", "message": "use y"},
        {"component": "x", "flag": "late", "introduced": "1.33"},
    ]
    assert read["gates"] == [
        {"gate": "A", "stages": {"1.32": "Alpha", "1.34": "GA true"}},
        {"gate": "B", "removed": "1.33", "stages": {"1.32": "Beta"}},
        {"gate": "C", "introduced": "1.33", "stages": {"1.33": "Alpha"}},
    ]
    assert len(text.splitlines()) == 15


@pytest.mark.parametrize(
    ("component", "flag", "minor"),
    [("kube-apiserver", "cloud-provider", 33), ("kube-controller-manager", "concurrent-service-syncs", 37)],
)
def test_great_removals_are_known(component: str, flag: str, minor: int) -> None:
    """What Kubernetes' changelogs list is in the table, also where another component still has the flag."""
    found = known_flags()[component, flag]
    assert found.known_by(V(1, minor - 1, 9)) and not found.known_by(V(1, minor, 0))


def test_a_gate_has_its_stages() -> None:
    """From alpha on, until it is gone."""
    tracing = known_gates()["APIServerTracing"]
    stages = [tracing.stage_at(V(1, minor, 0)) for minor in (31, 32, 33, 34, 36, 37)]
    assert [stage and (stage.name, stage.locked) for stage in stages] == [
        None,
        ("Beta", None),
        ("Beta", None),
        ("GA", True),
        ("GA", True),
        None,
    ]


def test_tables_are_consistent() -> None:
    """No end comes before its beginning, and all is within the minors that were read, of which none is left out."""
    first, last = min(known_versions()), max(known_versions())
    assert list(known_versions()) == [(1, minor) for minor in range(first[1], last[1] + 1)]
    for flag in known_flags().values():
        known = [minor for minor in (flag.introduced, flag.deprecated, flag.removed) if minor]
        assert known == sorted(known) and all(first <= minor <= last for minor in known), flag
    for gate in known_gates().values():
        begun = [stage.since for stage in gate.stages]
        assert begun[0] == (gate.introduced or first) and begun == sorted(begun), gate.name
        assert begun[-1] < (gate.removed or (2, 0)) and (gate.removed or last) <= last, gate.name
        assert {stage.name for stage in gate.stages} <= {"Alpha", "Beta", "GA", "Deprecated"}, gate.name
