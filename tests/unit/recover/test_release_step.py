"""The rollback of kube-apiserver's release, with Helm's traps in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from tests.unit.gates.builders import add_deployment, add_pod, crashed, running, waiting
from tests.unit.recover.controllers import controller, generation
from upgrader.errors import ApiUnavailable, HelmError, ReleaseLocked, StepFailed
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.model.cluster import Cluster, Host
from upgrader.model.gate_settings import GatePolicy
from upgrader.pipeline import Pipeline
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.pipeline import RecoverTools, recover_pipeline
from upgrader.recover.steps.hand_over import HandOverStep
from upgrader.recover.steps.release_recovery import ReleaseRecoveryStep

NAME, SPACE = "kube-apiserver", "kube-system"
GOOD, BAD = ("--a=1",), ("--a=1", "--nonsense")
INTERRUPTED = "Preparing upgrade"


def pod(*args: str, **more: Any) -> dict[str, Any]:
    """A pod's spec; `more`: further fields of its container."""
    container = {"name": NAME, "image": "kube-apiserver:v1", "command": [NAME], "args": list(args), **more}
    return {"containers": [container]}


def manifest(*args: str, **more: Any) -> str:
    """A release's manifest."""
    return yaml.safe_dump(
        {"kind": "Deployment", "metadata": {"name": NAME}, "spec": {"template": {"spec": pod(*args, **more)}}}
    )


class World:
    """A cluster whose API is back, served by generation 4, which was made of GOOD."""

    def __init__(self) -> None:
        self.kube, self.helm, self.hosts, self.clock = FakeKube(), FakeHelm(), FakeHosts(), FakeClock()
        self.kube.raw_answers["/readyz"] = "ok"
        self.recovery = FakeRecovery(self.kube)
        self.notes: list[str] = []
        kept = generation(4)
        self.hosts.files["controller-1", kept.manifest] = json.dumps({"spec": pod(*GOOD)}).encode()
        sha = hashlib.sha256(b"").hexdigest()
        record = {"entries": {"manifest.json": {"sha256": sha}}}
        self.hosts.files["controller-1", f"{kept.folder}/generation.json"] = json.dumps(record).encode()

    def checkpoint_of(self, template_hash: str) -> None:
        """Have the generation name the template of its pod."""
        record = {"entries": {}, "origin": {"template_hash": template_hash}}
        self.hosts.files["controller-1", f"{generation(4).folder}/generation.json"] = json.dumps(record).encode()

    def live(self, *args: str, healthy: bool = False, restarts: int = 4, template_hash: str = "", **more: Any) -> None:
        """The live Deployment; unhealthy, its new pod crashes beside the standby pod."""
        add_deployment(self.kube, NAME, **({} if healthy else {"readyReplicas": 0, "availableReplicas": 0}))
        found = self.kube.get(WORKLOADS["Deployment"], NAME, SPACE)
        assert found is not None
        spec = {**found["spec"], "template": {"spec": pod(*args, **more)}}
        self.kube.put(WORKLOADS["Deployment"], {**found, "spec": spec}, SPACE)
        labels = {"app": NAME, "pod-template-hash": template_hash} if template_hash else None
        add_pod(self.kube, NAME, running(NAME) if healthy else crashed(name=NAME, restarts=restarts), labels=labels)

    def apply(self, *, api_was_away: bool = True) -> list[str]:
        """Carry the step out; what Helm was asked to do."""
        seen = Diagnosis(ApiSeen(answers=True), (controller(active=4),), ())
        step = ReleaseRecoveryStep(
            examine=lambda: seen,
            recovery=self.recovery,
            hosts=self.hosts,
            helm=self.helm,
            kube=self.kube,
            clock=self.clock,
            timeout_seconds=300,
            api_was_away=api_was_away,
        )
        step.apply(self.notes.append)
        return self.helm.calls

    def pipeline(self, wrong: str = "") -> Pipeline:
        """A whole recovery where the API answers; `wrong`: what it does wrong."""
        seen = Diagnosis(ApiSeen(answers=True), (controller(active=4),), (), wrong)
        cluster = Cluster(Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), (Host("controller-1", "a"),))
        gates = GateCatalog(self.kube, self.clock, cluster, GatePolicy())
        ports = self.hosts, self.helm, self.kube, self.clock
        return recover_pipeline(seen, RecoverTools(*ports, cluster, lambda: seen, self.recovery, gates, 300.0))


@pytest.fixture
def world() -> World:
    """A release with one good revision."""
    world = World()
    world.helm.install(NAME, manifest(*GOOD), "superseded", description="Install complete")
    return world


@pytest.mark.parametrize("there", [True, False])
def test_records_that_are_gone(there: bool) -> None:
    """The Deployment that serves is named, with HELM_DRIVER: only where it is gone as well does a standby pod serve."""
    world = World()
    if there:
        world.live(*GOOD, healthy=True)
    with pytest.raises(StepFailed) as caught:
        world.apply()
    assert ("only a standby pod serves" in caught.value.message) is not there
    assert ("Deployment kube-system/kube-apiserver exists" in caught.value.message) is there
    assert ("HELM_DRIVER" in caught.value.remedy) is there
    assert world.helm.calls == []


def test_bad_revision_that_helm_calls_deployed(world: World) -> None:
    """A plain `helm upgrade` marks a bad flag as deployed: its pods disprove it, and the content names the target."""
    world.helm.install(NAME, manifest(*BAD), description="Upgrade complete")
    world.live(*BAD)
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]
    assert any("exits with 1" in note for note in world.notes)
    assert any("generation 4" in note and "revision 1" in note for note in world.notes)


def test_edit_by_hand(world: World) -> None:
    """After `kubectl edit` the release is deployed and good, and only the live object isn't: it is written again."""
    world.helm.install(NAME, manifest(*GOOD))
    world.live(*BAD)
    assert world.apply() == [f"rollback {NAME} 2 without waiting"]
    assert any("edited by hand" in note for note in world.notes)


LIMIT: dict[str, Any] = {"resources": {"limits": {"memory": "100Mi"}}}


def test_memory_limit_that_kills(world: World) -> None:
    """A plain `helm upgrade` that changed nothing but a limit: the revision that is killed is never the target."""
    world.helm.install(NAME, manifest(*GOOD, **LIMIT))
    world.live(*GOOD, **LIMIT)
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]


def test_revision_that_fails_for_what_no_checkpoint_holds(world: World) -> None:
    """A change that a checkpoint doesn't show, such as a node selector, leaves equal content: the evidence decides."""
    world.checkpoint_of("good")
    world.helm.install(NAME, manifest(*GOOD))
    world.live(*GOOD, template_hash="bad")
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]


def test_template_that_made_the_checkpoint_is_not_to_blame(world: World) -> None:
    """Where the very template that the checkpoint was made of crashes, no older revision is put in its place."""
    world.checkpoint_of("good")
    world.helm.install(NAME, manifest(*GOOD))
    world.live(*GOOD, template_hash="good")
    assert world.apply() == [f"rollback {NAME} 2 without waiting"]


def test_limit_that_was_edited_by_hand(world: World) -> None:
    """An edit of anything in the pod counts as one: the release's newest revision is good, and written again."""
    world.helm.install(NAME, manifest(*GOOD))
    world.live(*GOOD, **LIMIT)
    assert world.apply() == [f"rollback {NAME} 2 without waiting"]
    assert any("memory limit of kube-apiserver" in note for note in world.notes)


@pytest.mark.parametrize("status", ["pending-upgrade", "failed", "pending-rollback"])
def test_release_that_helm_left_half_done(world: World, status: Any) -> None:
    """A release that isn't deployed goes back at once, without waiting for evidence."""
    world.helm.install(NAME, manifest(*BAD), status, description=INTERRUPTED)
    world.live(*BAD)
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]
    assert world.clock.monotonic() == 0


def test_half_done_upgrade_that_others_may_be_at(world: World) -> None:
    """Where the API answered all the time, another process may be working on a young pending release."""
    just_now = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=5)
    world.helm.install(NAME, manifest(*BAD), "pending-upgrade", updated=just_now)
    world.live(*BAD)
    with pytest.raises(ReleaseLocked, match="another Helm"):
        world.apply(api_was_away=False)
    assert world.helm.calls == []


def test_healthy_release_is_left_alone(world: World) -> None:
    """An upgrade that succeeded moments before the power cut isn't rolled back, though the standby pod is older."""
    world.helm.install(NAME, manifest("--a=2"))
    world.live("--a=2", healthy=True)
    assert world.apply() == []


@pytest.mark.parametrize("wrong", ["it rejects kubelet (HTTP 401)", ""])
def test_api_that_is_healthy_and_wrong_goes_back(world: World, wrong: str) -> None:
    """What answers wrongly is Ready: no health speaks for its revision, and its instances are looked for once more."""
    world.helm.install(NAME, manifest(*BAD), description="Upgrade complete")
    world.live(*BAD, healthy=True)
    _, release, hand_over = (item.step for item in world.pipeline(wrong).steps)
    release.apply(world.notes.append)
    assert world.helm.calls == ([f"rollback {NAME} 1 without waiting"] if wrong else [])
    assert any(wrong in note for note in world.notes)
    assert isinstance(hand_over, HandOverStep) and hand_over.replaced_wrong is bool(wrong)


def test_healthy_only_until_the_kubelet_tells_anew(world: World) -> None:
    """A pod of an unproven revision that was Ready before the power cut, and crashes since, isn't taken for healthy."""
    world.helm.install(NAME, manifest(*BAD))
    world.live(*BAD, healthy=True)
    sleep = world.clock.sleep

    def tells(seconds: float) -> None:
        sleep(seconds)
        if world.clock.monotonic() == 8:
            world.live(*BAD)

    world.clock.sleep = tells  # type: ignore[method-assign]
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]


def test_pods_of_the_good_revision_may_take_their_time(world: World) -> None:
    """Where the live workload is what the standby pod was made of, slow pods are no reason to write anything."""
    world.helm.install(NAME, manifest(*GOOD))
    world.live(*GOOD, restarts=0)
    add_pod(world.kube, NAME, waiting("ContainerCreating", name=NAME))
    assert world.apply() == []


def test_upgrade_that_never_gets_healthy_goes_back(world: World) -> None:
    """What isn't known to work, and doesn't get healthy in its time either, goes back."""
    world.helm.install(NAME, manifest("--a=2"))
    world.live("--a=2")
    add_pod(world.kube, NAME, waiting("ContainerCreating", name=NAME))
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]
    assert world.clock.monotonic() >= 60


def test_no_revision_matches(world: World) -> None:
    """Then Helm's own last good one is used, never the one that has just failed, and a note names it."""
    world.helm.manifests[NAME, 1] = manifest("--something=else")
    world.helm.install(NAME, manifest(*BAD))
    world.live(*BAD)
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]
    assert any("no good revision matches" in note for note in world.notes)


def test_failed_revision_of_the_same_content_is_no_way_back(world: World) -> None:
    """A revision that failed is passed over even if its content matches: what else it changed isn't known."""
    world.helm.install(NAME, manifest(*GOOD), "failed", description='Upgrade "x" failed: no')
    world.live(*GOOD)
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]


def test_release_that_is_gone() -> None:
    """Without a release there is nothing to roll back to: the message names the command to run."""
    with pytest.raises(StepFailed, match="not installed") as failed:
        World().apply()
    assert "upgrader run" in failed.value.remedy


@pytest.mark.parametrize(
    "error",
    [
        ApiUnavailable("refused"),
        HelmError("kube-apiserver: the server has asked for credentials: Unauthorized"),
    ],
)
def test_api_that_is_lost_or_wrong_again_in_between(world: World, error: HelmError | ApiUnavailable) -> None:
    """In place of a wrong pod that was stopped comes another one: the API is recovered again, and the rollback tried
    again; Helm can roll back from what the first try left.
    """
    world.helm.install(NAME, manifest(*BAD), "failed")
    world.live(*BAD)
    world.helm.fail_rollback[NAME] = error
    bring_api_back = world.recovery.bring_api_back

    def passes(note: Callable[[str], None]) -> None:
        world.helm.fail_rollback.clear()
        bring_api_back(note)

    world.recovery.bring_api_back = passes  # type: ignore[method-assign]
    assert world.apply() == [f"rollback {NAME} 1 without waiting", f"rollback {NAME} 1 without waiting"]
    assert world.recovery.calls == 1


def test_rollback_that_fails_for_another_reason_is_not_repeated(world: World) -> None:
    """What Helm says then is what the operator has to read."""
    world.helm.install(NAME, manifest(*BAD), "failed")
    world.live(*BAD)
    world.helm.fail_rollback[NAME] = HelmError("timed out")
    with pytest.raises(HelmError, match="timed out"):
        world.apply()
    assert world.recovery.calls == 0


def test_running_it_again_changes_nothing(world: World) -> None:
    """After the rollback the release is what the standby pod was made of: a second recovery finds nothing to do."""
    world.helm.install(NAME, manifest(*BAD))
    world.live(*BAD)
    world.apply()
    world.live(*GOOD, healthy=True)
    assert world.apply() == [f"rollback {NAME} 1 without waiting"]
