"""A static pod that can't start is no start for an adoption."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_pods import kubeadm_facts
from tests.unit.gates.builders import add_pod, crashed, running, waiting
from upgrader.adopt.failing_pods import check_started
from upgrader.errors import Blocked

_MANAGER = "kube-controller-manager"
_POD = f"{_MANAGER}-controller-1"


def _kube(container: dict[str, Any], log: str = "") -> FakeKube:
    """The API with the mirror pod of kube-controller-manager, whose container is in this state."""
    kube = FakeKube()
    add_pod(kube, _MANAGER, container, name=_POD)
    for previous in (False, True):
        kube.log_texts[_POD, _MANAGER, previous] = log
    return kube


@pytest.mark.parametrize("restarts", [1, 30])
def test_a_flag_that_the_program_does_not_know_is_found_before_anything_changes(restarts: int) -> None:
    """The chart's pod would have `--feature-gate`, too, and the adoption would be rolled back from its middle."""
    kube = _kube(crashed(restarts=restarts, name=_MANAGER), "Error: unknown flag: --feature-gate\n")
    words = f"{_MANAGER}'s static pod on controller-1: .* exits with 1.*: Error: unknown flag: --feature-gate"
    with pytest.raises(Blocked, match=words) as caught:
        check_started(kube, kubeadm_facts().controllers)
    assert "nothing was changed" in caught.value.message
    assert "/etc/kubernetes/manifests/kube-controller-manager.yaml" in caught.value.remedy


@pytest.mark.parametrize(
    "container",
    [
        running(_MANAGER),
        running(_MANAGER, ready=False),
        waiting("ContainerCreating", name=_MANAGER),
        crashed(restarts=0, name=_MANAGER),
    ],
    ids=["Ready", "its probe fails", "starts", "ended once"],
)
def test_what_may_yet_become_ready_is_left_to_the_gates(container: dict[str, Any]) -> None:
    """A pod that starts again just now is no reason to refuse; nor is one that the API doesn't know by that name."""
    check_started(_kube(container), kubeadm_facts().controllers)
    check_started(FakeKube(), kubeadm_facts().controllers)
