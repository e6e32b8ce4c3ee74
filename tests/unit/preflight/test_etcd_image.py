"""Whether etcd's members can get the planned image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion
from upgrader.model.finding import Finding
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.backups import check_backups
from upgrader.preflight.etcd_image import check_etcd_image
from upgrader.steps.etcd.plan import plan_etcd
from upgrader.steps.plan import Plan

THREE = (CONTROLLER, "controller-2", "controller-3")
IMAGE = "registry.k8s.io/etcd:{}-0"


def found(world: World, planned: str, *, runs: str = "3.6.5", backups: bool = True) -> dict[str, Finding]:
    """What is found of a run to that version, where each manifest has another one."""
    observed = replace(world.observed, etcd=world.observed.etcd or {name: IMAGE.format(runs) for name in world.facts})
    settings = EtcdSettings(IMAGE.format(planned), EtcdVersion.parse(planned))
    plan = Plan(observed.server, observed.server, plan_etcd(settings, observed))
    context = replace(world.context(), observed=observed, plan=plan, target=observed.server, takes_backups=backups)
    checks = (("etcd-image", check_etcd_image), ("backup", check_backups))
    return {finding.id: finding for finding in run_checks(context, checks)}


@pytest.fixture
def three(world: World) -> World:
    """Three healthy members."""
    for _ in range(2):
        for name in THREE:
            world.controller(name, etcd__server__version="3.6.5")
    return world


def test_a_patch_of_three_members(three: World) -> None:
    """Nothing is found: neither of that, nor where nothing changes, nor where upgrader.yaml has no section `etcd`."""
    assert found(three, "3.6.8") == {}
    assert found(three, "3.6.5") == {}
    assert list(check_etcd_image(three.context())) == []


def test_a_single_member(world: World) -> None:
    """The API waits while it restarts."""
    world.controller(etcd__server__version="3.6.5")
    assert [(item.id, item.severity) for item in found(world, "3.6.8").values()] == [("etcd-image.no-spare", "info")]


@pytest.mark.parametrize(
    ("planned", "runs", "id_", "words"),
    [
        ("3.6.4", "3.6.5", "etcd-image.older", "controller-3 (3.6.5)"),
        ("3.6.8", "3.4.30", "etcd-image.skips-minor", "controller-3 (3.4.30)"),
        ("3.5.9", "3.5.8", "etcd-image.too-old", "older than 3.5.24"),
        ("3.7.2", "3.6.5", "etcd-image.no-return", "once all members run etcd 3.7.2"),
    ],
)
def test_versions(three: World, planned: str, runs: str, id_: str, words: str) -> None:
    """What each member reports counts, and not what its image is called."""
    three.controller("controller-3", etcd__server__version=runs)
    finding = found(three, planned)[id_]
    assert words in finding.title and (finding.severity == "info") == (id_ == "etcd-image.no-return")


@pytest.mark.parametrize(
    ("planned", "runs", "severity", "least"),
    [
        ("3.6.14", "3.5.19", "error", "3.5.26"),
        ("3.6.14", "3.5.25", "error", "3.5.26"),
        ("3.6.14", "3.5.26", "warning", "3.5.32"),
        ("3.6.14", "3.5.32", None, ""),
        ("3.5.32", "3.5.25", None, ""),
        ("3.7.2", "3.6.10", "error", "3.6.11"),
        ("3.7.2", "3.6.11", None, ""),
    ],
)
def test_upstreams_preconditions(three: World, planned: str, runs: str, severity: str | None, least: str) -> None:
    """One member that is behind is enough: with the next minor, members that were removed may vote again."""
    for name in THREE:
        three.controller(name, etcd__server__version="3.5.32" if planned.startswith("3.6") else "3.6.14")
    three.controller("controller-3", etcd__server__version=runs)
    finding = found(three, planned, runs=runs).get("etcd-image.precondition")
    assert (finding.severity if finding else None) == severity
    if finding:
        assert f"{least} or later: controller-3 ({runs})" in finding.title
        assert "https://etcd.io/" in finding.diagnosis and "etcd.image" in finding.remedy


def test_flags_that_the_next_minor_lacks(three: World) -> None:
    """kubeadm up to v1.33 wrote two of them, and etcd 3.7 ends at once with them."""
    for name in THREE:
        three.controller(name, etcd__server__version="3.6.14")
    old = {"experimental-initial-corrupt-check": "true", "experimental-watch-progress-notify-interval": "5s"}
    three.controller("controller-2", etcd__server__version="3.6.14", etcd__flags=old)
    finding = found(three, "3.7.2", runs="3.6.14")["etcd-image.removed-flags"]
    assert finding.severity == "error" and finding.title.startswith("controller-2: etcd 3.7.2 doesn't start")
    assert "--experimental-initial-corrupt-check (now --feature-gates=InitialCorruptCheck)" in finding.title
    assert "etcd-image.removed-flags" not in found(three, "3.6.15", runs="3.6.14")


def test_members_of_different_versions(three: World) -> None:
    """That is how an interrupted run leaves them: the next one takes it up."""
    three.controller("controller-3", etcd__server__version="3.6.8")
    three.observed = replace(
        three.observed, etcd={name: IMAGE.format("3.6.8" if name == THREE[2] else "3.6.5") for name in THREE}
    )
    assert found(three, "3.6.8") == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"etcd__server__healthy": False}, "2 of 3 are healthy"),
        ({"etcd__server": {"unknown": "refused"}}, "2 of 3 are healthy"),
        (
            {
                "etcd__server__members": [
                    *({"id": n, "name": n} for n in THREE),
                    {"id": "f1", "name": "", "learner": True},
                ]
            },
            "f1 is still a learner",
        ),
    ],
)
def test_a_member_that_is_not_well(three: World, changes: dict[str, Any], words: str) -> None:
    """No other one may be stopped then."""
    three.controller("controller-3", **changes)
    finding = found(three, "3.6.8")["etcd-image.not-ready"]
    assert finding.severity == "error" and words in finding.title


def test_etcd_elsewhere_or_in_another_form(world: World) -> None:
    """Neither can be changed; a manifest that isn't understood isn't taken for none."""
    world.controller(etcd__manifest=False)
    elsewhere = replace(world, facts={})
    none = found(elsewhere, "3.6.8")["etcd-image.elsewhere"]
    assert none.severity == "error" and "no controller has /etc/kubernetes/manifests/etcd.yaml" in none.title
    assert "another `staticPodPath`" in none.diagnosis
    world.controller()
    world.observed = replace(world.observed, etcd={"controller-9": IMAGE.format("3.6.5")})
    seen = found(world, "3.6.8")
    assert seen["etcd-image.unread"].severity == "unknown" and CONTROLLER in seen["etcd-image.unread"].title
    assert "controller-9" in seen["etcd-image.unlisted"].title


def test_another_minor_begins_with_a_backup(three: World) -> None:
    """Nothing else brings the older etcd back; for a patch, the way back is the image."""
    assert found(three, "3.7.2", backups=False)["backup.none"].title.endswith("minor version of etcd")
    assert "backup.none" not in found(three, "3.6.8", backups=False)
