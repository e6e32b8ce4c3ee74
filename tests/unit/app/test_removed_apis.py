"""Which APIs may be missing while a run is rolled back by another process."""

from __future__ import annotations

import pytest

from testkit.fakes.helm import FakeHelm
from upgrader.app.removed_apis import removed_by_undo
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.gates.continuity.served_groups import PRERELEASES
from upgrader.model.release import RestorePoint

ON = 'args: ["--runtime-config=resource.k8s.io/v1beta1=true"]\n'
OFF = 'args: ["--runtime-config="]\n'
SERVICE = "kind: APIService\nmetadata: {name: v1.a.example}\nspec: {group: a.example, version: v1}\n"


def removed(release: str, *manifests: str, revision: int | None = 1) -> frozenset[str]:
    """What may be missing after a run that found `revision` of a release with these manifests as its revisions."""
    helm = FakeHelm()
    for manifest in manifests:
        helm.install(release, manifest)
    steps = (
        StepState("checks", "passed"),
        StepState("tune", "passed", restore_point=RestorePoint(playbook="undo.yml")),
        StepState(release, "passed", restore_point=RestorePoint(release, "kube-system", revision)),
    )
    return removed_by_undo(helm, RunState(steps=steps))


@pytest.mark.parametrize(("before", "after"), [(ON, OFF), (OFF, ON)])
def test_prereleases_that_a_run_turned_on_or_off(before: str, after: str) -> None:
    """They are missing until the undo, or after it."""
    assert removed("kube-apiserver", before, after) == {PRERELEASES}
    assert removed("kube-apiserver", before, after, before) == {PRERELEASES}, "already undone"
    assert removed("kube-apiserver", before, before) == frozenset()


def test_apis_of_a_release_that_the_run_removed_or_installed() -> None:
    """An own release's APIService, whichever way it goes; one that is uninstalled by now has no revisions."""
    assert removed("own", SERVICE, "kind: ConfigMap\n") == {"a.example/v1"}
    assert removed("own", SERVICE, revision=None) == {"a.example/v1"}
    assert removed("own", revision=None) == frozenset()
