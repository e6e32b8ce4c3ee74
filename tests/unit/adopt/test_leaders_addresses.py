"""Monitoring that asks kube-controller-manager and kube-scheduler at the controllers' addresses is told of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.adopt.kubeadm_cluster import facts, static_pod
from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.leaders_addresses import about_leaders_addresses
from upgrader.model.cluster import Host

_MANAGER, _SCHEDULER = "kube-controller-manager", "kube-scheduler"


def _told(manager: str, scheduler: str) -> str:
    """Of static pods with these flags."""
    return about_leaders_addresses(
        facts({_MANAGER: static_pod(_MANAGER, manager), _SCHEDULER: static_pod(_SCHEDULER, scheduler)})
    )


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", "10.0.0.1", ""])
def test_who_listens_for_others_listens_elsewhere(bound: str) -> None:
    """No flag of the chart differs then, so nothing else would say so."""
    told = _told(f"--bind-address={bound}", "--bind-address=127.0.0.1")
    assert told.startswith("kube-controller-manager will listen on port 10257 at the pods' own addresses, and no")
    assert "`component: kube-controller-manager` finds" in told and _SCHEDULER not in told
    both = _told(f"--bind-address={bound}", f"--bind-address={bound}")
    assert both.startswith("kube-controller-manager and kube-scheduler will") and "on ports 10257 and 10259 at" in both


def test_one_controller_that_listens_for_others_is_enough() -> None:
    """Each controller may have its own address: the first one's isn't that of all."""
    known = facts({_SCHEDULER: static_pod(_SCHEDULER, "--bind-address=127.0.0.1")})
    second = ControllerFacts(
        Host("controller-2", "10.0.0.2"), {_SCHEDULER: static_pod(_SCHEDULER, "--bind-address=10.0.0.2")}, {}
    )
    told = about_leaders_addresses(replace(known, controllers=(*known.controllers, second)))
    assert told.startswith("kube-scheduler will listen on port 10259")


def test_kubeadms_own_are_asked_by_no_others() -> None:
    """They listen at 127.0.0.1; and those that were retired, nowhere."""
    assert _told("--bind-address=127.0.0.1", "--bind-address=::1") == ""
    assert about_leaders_addresses(facts({})) == ""
