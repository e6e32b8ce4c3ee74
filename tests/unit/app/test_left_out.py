"""A controller that is down is left out where upgrader.yaml allows it, and returns; what isn't known forbids both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.pki import CertificateAuthority, encoded, printed
from tests.unit.app.test_controllers_change import LAST, NAMES, Place, healthy_place
from tests.unit.app.test_upgrade import FakeSession
from tests.unit.engine.killing import FROM, TO
from upgrader.adopt.node_withdrawal import CONTROL_PLANE
from upgrader.app import backup, controller_removal, existing_run, left_out, recovery, upgrade
from upgrader.app.front_end import READS_FOLDER, FrontEnd
from upgrader.app.left_out import ProposedChange, WantedUpgrade, propose_leaving_out, propose_return
from upgrader.app.resumable import upgrade_to_resume
from upgrader.app.resume_or_start import newest_without_end
from upgrader.app.upgrade import PlannedUpgrade, check_upgrade, propose_upgrade
from upgrader.app.wiring import Session
from upgrader.errors import ApiUnavailable, Blocked, StepFailed, UsageError
from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES, NODES, PODS
from upgrader.model.event import Event, RunEnded, StepEnded, StepStarted
from upgrader.model.finding import Finding
from upgrader.model.left_out import LEFT_OUT, LeftOut
from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import BUILT_IN_CHARTS, RehearsalSettings, ReleaseSettings
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, KubeObject
from upgrader.steps.plan import Plan
from upgrader.steps.release.helm_release import ChartStep

DAY = timedelta(days=1)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Three healthy controllers, of which a run may leave one out."""
    (tmp_path / "upgrader.yaml").write_text(f"kubernetesVersion: {TO}\npolicy:\n  degraded: allow\n")
    return healthy_place(tmp_path, monkeypatch, left_out, degraded="allow")


def node(place: Place, name: str = LAST) -> KubeObject:
    """A controller's node."""
    found = place.kube.get(NODES, name)
    assert found is not None
    return found


def die(place: Place, name: str = LAST) -> None:
    """It loses its power, and kube-controller-manager knows."""
    place.hosts.down.add(name)
    silent(place, name)


def silent(place: Place, name: str = LAST) -> None:
    """Its kubelet has not been heard of for too long."""
    taints = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
    status = {**node(place, name)["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
    place.kube.put(NODES, {**node(place, name), "spec": {"taints": taints}, "status": status})


def come_back(place: Place, name: str = LAST) -> None:
    """Its kubelet reports again."""
    place.hosts.down.discard(name)
    status = {**node(place, name)["status"], "conditions": [{"type": "Ready", "status": "True"}]}
    place.kube.put(NODES, {**node(place, name), "spec": {}, "status": status})


def mark(place: Place, phase: Any = "out", version: KubernetesVersion | None = FROM) -> None:
    """It is marked as left out, with or without its label."""
    labels = {CONTROL_PLANE: ""} if phase == "returning" else {}
    meta = {**node(place)["metadata"], "labels": labels, "annotations": {LEFT_OUT: LeftOut(phase, version).text()}}
    place.kube.put(NODES, {**node(place), "metadata": meta})


def leaving(place: Place, **wanted: Any) -> ProposedChange | None:
    """What `run` proposes before the upgrade."""
    said = list[str]()
    shown = FrontEnd(doing=said.append)
    with propose_leaving_out(place.folder, WantedUpgrade(TO, **wanted), shown, take_over=False) as proposed:
        assert proposed is None or (said[0], said[-1]) == (READS_FOLDER, "")
        return proposed


def returning(place: Place) -> ProposedChange | None:
    """What `resume` proposes."""
    said = list[str]()
    with propose_return(place.folder, FrontEnd(doing=said.append), take_over=False) as proposed:
        assert proposed is None or (said[0], said[-1]) == (READS_FOLDER, "")
        return proposed


def names(proposed: ProposedChange | None) -> list[str]:
    """The steps, in their order."""
    assert proposed is not None
    return [item.step.name for item in proposed.pipeline.steps]


def do(proposed: ProposedChange | None, step: str) -> None:
    """Apply one of the steps."""
    assert proposed is not None
    next(item.step for item in proposed.pipeline.steps if item.step.name == step).apply(lambda _: None)


def test_only_what_is_silent_in_both_ways_is_down(place: Place) -> None:
    """A controller whose SSH fails, or whose kubelet alone is silent, lives for all that is known."""
    assert leaving(place) is None
    place.hosts.down.add(LAST)
    assert leaving(place) is None
    place.hosts.down.clear()
    silent(place)
    assert leaving(place) is None
    place.hosts.down.add(LAST)
    found = leaving(place)
    assert found is not None and (found.host.name, found.kind) == (LAST, RunKind.LEAVE_OUT_CONTROLLER)


def test_controller_that_refuses_the_login_is_not_down(place: Place) -> None:
    """Something answers there: its kubelet alone may be dead, and what else runs there isn't known."""
    silent(place)
    place.hosts.refusing.add(LAST)
    assert leaving(place) is None


def test_controller_whose_api_server_serves_is_not_down(place: Place) -> None:
    """Its kubelet and its sshd are dead, and the rest lives: the others see its kube-apiserver's lease in etcd."""
    die(place)
    here = node(place)["status"]["addresses"][0]["address"]
    endpoints = [{"addresses": ["192.0.2.1"]}, {"addresses": [here]}]
    place.kube.put(
        ENDPOINT_SLICES, {"metadata": {"name": "kubernetes", "namespace": "default"}, "endpoints": endpoints}
    )
    assert leaving(place) is None
    del endpoints[1]
    place.kube.put(
        ENDPOINT_SLICES, {"metadata": {"name": "kubernetes", "namespace": "default"}, "endpoints": endpoints}
    )
    assert leaving(place) is not None


def test_nothing_is_left_out_by_default(place: Place) -> None:
    """Without `policy.degraded: allow`, nothing is even asked."""
    (place.folder / "upgrader.yaml").write_text(f"kubernetesVersion: {TO}\n")
    die(place)
    assert leaving(place) is None


def test_two_that_are_down_are_not_left_out(place: Place) -> None:
    """Neither is a second one beside one that is left out already: etcd has no majority."""
    die(place)
    die(place, NAMES[1])
    assert leaving(place) is None
    come_back(place)
    mark(place)
    assert leaving(place) is None


def test_etcd_without_a_majority_forbids_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every member that is left must answer and be healthy; one that isn't examined may not be."""
    die(place)
    place.members.append("id4")
    with pytest.raises(Blocked, match=r"2 of 4 members are healthy, but 3 are needed; nothing was changed"):
        leaving(place)
    place.members.pop()
    place.hosts.down.add(NAMES[1])
    with pytest.raises(Blocked, match=f"{NAMES[1]} could not be examined"):
        leaving(place)


def test_plan_of_another_upgrade_leaves_no_controller_out(place: Place) -> None:
    """What a fleet's campaign approved is compared first, with the plan of all controllers: the one that was saved
    while all of them lived.
    """
    with vars(left_out)["open_session"](place.folder, TO) as session:
        saved, found = PlannedUpgrade.of(session, None).plan, list[str]()
    die(place)
    assert leaving(place, refuse=lambda checked, _: found.append(checked.plan.changes_digest)) is not None
    assert found == [saved.changes_digest]

    def refuse(*_: object) -> None:
        raise Blocked("another one")

    with pytest.raises(Blocked, match="another one"):
        leaving(place, refuse=refuse)
    assert LEFT_OUT not in node(place)["metadata"].get("annotations", {})


BEGUN = StepStarted("kube-apiserver", "v1 → v2", RestorePoint("kube-apiserver", "kube-system", 1))


def test_interrupted_upgrade_comes_first(place: Place) -> None:
    """It began with all controllers. Where one has died since, neither of its ways passes a gate: the message names
    --new, which keeps what it has changed.
    """
    die(place)
    place.interrupt(RunKind.UPGRADE, BEGUN)
    with pytest.raises(Blocked, match=r"run .* was interrupted, and its changes are still in place") as caught:
        leaving(place)
    assert f"upgrader run --new, which first leaves out {LAST}" in caught.value.remedy
    assert leaving(place, anew=True) is not None
    mark(place)
    assert returning(place) is None, "`resume` resumes the upgrade"


def test_controller_that_died_during_an_upgrade(place: Place) -> None:
    """The upgrade has failed in its middle. Leaving the controller out keeps each release at the version that it has:
    it is the run behind it that upgrades.
    """
    die(place)
    place.interrupt(RunKind.UPGRADE, BEGUN, RunEnded("r", "failed", 1.0, "kube-apiserver is not Ready"))
    place.run_version(TO, others=FROM)
    found = leaving(place)
    assert found is not None
    specs = {item.step.name: item.step.spec for item in found.pipeline.steps if isinstance(item.step, ChartStep)}
    assert {name: spec.values["kubernetesVersion"] for name, spec in specs.items()} == {"kube-apiserver": str(TO)}
    assert "kubernetes" in names(found), "it is only verified"


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ((BEGUN,), True),
        ((BEGUN, StepEnded("kube-apiserver", "failed", 1.0, "no"), RunEnded("r", "failed", 1.0)), True),
        ((RunEnded("r", "rolled-back", 1.0),), False),
        ((RunEnded("r", "succeeded", 1.0),), False),
    ],
)
def test_what_resume_does_first(place: Place, more: tuple[Event, ...], first: bool) -> None:
    """What is left of an upgrade, also of one that has failed: `resume` never refuses with itself as the remedy."""
    mark(place)
    place.interrupt(RunKind.UPGRADE, *more)
    assert (returning(place) is None) is first


LEFT = StepStarted("kube-apiserver", "3 → 2 replicas", RestorePoint("kube-apiserver", "kube-system", 2))


def half_way(place: Place, *end: Event) -> None:
    """An upgrade has stopped in its middle as a controller died; that one was left out, and is back."""
    place.interrupt(RunKind.UPGRADE, BEGUN, *end)
    # Its name sorts behind the upgrade's.
    place.interrupt(RunKind.LEAVE_OUT_CONTROLLER, LEFT, RunEnded("l", "succeeded", 2.0), after=True)
    place.run_version(TO, others=FROM)
    mark(place)


@pytest.mark.parametrize("end", [(), (RunEnded("r", "failed", 1.0, "kube-apiserver is not Ready"),)])
def test_controller_that_is_back_before_the_next_upgrade_begins(
    place: Place, monkeypatch: pytest.MonkeyPatch, end: tuple[Event, ...]
) -> None:
    """Every command that refuses names one that works: `resume` brings it back, each release at the version that it
    has, then `run` goes on from there.
    """
    monkeypatch.setattr(upgrade, "open_session", vars(left_out)["open_session"])
    monkeypatch.setattr(existing_run, "open_session", vars(left_out)["open_session"])
    monkeypatch.setattr(controller_removal, "open_session", vars(left_out)["open_session"])
    half_way(place, *end)
    name = place.newest_upgrade()

    with pytest.raises(UsageError, match=r"the changes of the later run .* are still in place") as back:
        existing_run.existing_run(place.folder, name, FrontEnd(), take_over=False).__enter__()
    with pytest.raises(Blocked, match=f"upgrade {name} is not complete") as removed:
        place.removal().__enter__()
    for refused in (back.value, removed.value):
        assert "up again" in refused.remedy and "upgrader resume" in refused.remedy and "upgrader run" in refused.remedy
        assert "rollback" not in refused.remedy

    found = returning(place)
    assert found is not None
    specs = {item.step.name: item.step.spec for item in found.pipeline.steps if isinstance(item.step, ChartStep)}
    assert {each: spec.values["kubernetesVersion"] for each, spec in specs.items()} == {"kube-apiserver": str(TO)}
    do(found, "take-back")
    assert LeftOut.of(node(place)) == LeftOut("returning", FROM, TO), "it may start both from now on"
    do(found, "mark")
    with propose_upgrade(place.folder, TO, FrontEnd(), take_over=False) as proposed:
        assert [host.name for host in proposed.session.cluster.controllers] == list(NAMES)


def test_upgrade_that_cannot_be_continued_needs_no_word_that_its_changes_stay(place: Place) -> None:
    """There is nothing to choose: it can neither be resumed nor rolled back, and a retried job begins a new run."""
    half_way(place)
    with vars(left_out)["open_session"](place.folder) as session:
        found = session.find_runs()
    assert newest_without_end(found) == ""
    assert upgrade_to_resume(found, place.world.clock.now()) == ""


@pytest.mark.parametrize(("phase", "way"), [("leaving", "upgrader run"), ("returning", "upgrader resume")])
def test_half_left_out_comes_before_the_upgrade(
    place: Place, monkeypatch: pytest.MonkeyPatch, phase: str, way: str
) -> None:
    """Killed between the mark and the releases, nothing is known of how many they count: no run is continued then, and
    what completes it is named.
    """
    monkeypatch.setattr(existing_run, "open_session", vars(left_out)["open_session"])
    place.interrupt(RunKind.UPGRADE, BEGUN)
    mark(place, phase)
    if phase == "leaving":
        node_before = node(place)
        place.kube.put(NODES, {**node_before, "metadata": {**node_before["metadata"], "labels": {}}})
    with pytest.raises(Blocked, match="was interrupted; nothing was changed") as caught:
        existing_run.existing_run(place.folder, None, FrontEnd(), take_over=False).__enter__()
    assert way in caught.value.remedy
    assert returning(place) is not None
    die(place)
    assert leaving(place) is not None, "the operator chose to keep the upgrade's changes when it was begun"


def pod_there(place: Place, name: str, version: str) -> None:
    """A pod of kube-apiserver that the API lists on the controller."""
    containers = [{"name": "kube-apiserver", "image": f"registry.k8s.io/kube-apiserver:{version}"}]
    meta = {"name": name, "namespace": "kube-system", "labels": {"app.kubernetes.io/name": "kube-apiserver"}}
    place.kube.put(PODS, {"metadata": meta, "spec": {"nodeName": LAST, "containers": containers}, "status": {}})


@pytest.mark.parametrize("evidence", ["journal", "pods"])
def test_mark_has_each_version_that_the_controller_may_start(place: Place, evidence: str) -> None:
    """It died in the middle of an upgrade: the release is of the newer version, its checkpoint of the older one."""
    die(place)
    if evidence == "journal":
        place.interrupt(RunKind.UPGRADE, BEGUN, RunEnded("r", "failed", 1.0, "no"))
    else:
        pod_there(place, "kube-apiserver-checkpoint-3", str(FROM))
    place.run_version(TO, others=FROM)
    found = leaving(place)
    do(found, "leave-out")
    assert LeftOut.of(node(place)) == LeftOut("leaving", FROM, TO)
    do(found, "mark")
    assert LeftOut.of(node(place)) == LeftOut("out", FROM, TO)


def test_mark_of_an_upgrade_that_does_not_say_where_it_began(place: Place) -> None:
    """The oldest version isn't known then, which allows patches only."""
    die(place)
    place.interrupt(RunKind.UPGRADE, BEGUN, RunEnded("r", "failed", 1.0, "no"), current=None)
    do(leaving(place), "leave-out")
    found = LeftOut.of(node(place))
    assert found is not None and found.version is None and found.span == "its version"


def test_nothing_to_upgrade_leaves_nobody_out(place: Place) -> None:
    """The run is refused by its checks then, as by default."""
    die(place)
    place.run_version(FROM)
    with propose_leaving_out(place.folder, WantedUpgrade(FROM), FrontEnd(), take_over=False) as proposed:
        assert proposed is None
    mark(place, "leaving")
    with propose_leaving_out(place.folder, WantedUpgrade(FROM), FrontEnd(), take_over=False) as proposed:
        assert proposed is not None, "half left out is completed all the same"


def test_controller_that_is_down_is_asked_for_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where upgrader.yaml has etcd's image, what is installed is read on each controller that takes part."""
    asked: list[tuple[str, ...]] = []
    observe = FakeSession.observe

    def observed(session: FakeSession) -> Observed:
        asked.append(tuple(host.name for host in session.cluster.controllers))
        return observe(session)

    monkeypatch.setattr(FakeSession, "observe", observed)
    die(place)
    assert leaving(place) is not None
    assert set(asked) == {NAMES[:2]}


def test_upgrade_that_a_check_forbids_leaves_nobody_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks are those of the cluster without the controller; what may be skipped, is."""
    finding = Finding("removed-apis.used", "error", "an API is still used")
    monkeypatch.setattr(FakeSession, "findings", (finding,))
    die(place)
    with pytest.raises(Blocked, match="a check blocks the run"):
        leaving(place)
    assert LeftOut.of(node(place)) is None
    assert leaving(place, skips=Skips(("removed-apis.used",), "known")) is not None


def test_rehearsal_is_demanded_once_the_controller_is_left_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """None can be of the releases as they are then: before that, none is asked for; afterwards, one is."""
    opened = vars(left_out)["open_session"]

    @contextmanager
    def demanding(folder: Path, target: KubernetesVersion | None = None) -> Iterator[Session]:
        with opened(folder, target) as session:
            yield replace(session, settings=replace(session.settings, rehearsal=RehearsalSettings("require")))

    def preflight(session: Session, observed: Observed, plan: Plan, *_: object) -> tuple[Finding, ...]:
        return Session.preflight(session, observed, plan, ("rehearsal",))

    monkeypatch.setattr(left_out, "open_session", demanding)
    monkeypatch.setattr(upgrade, "open_session", demanding)
    monkeypatch.setattr(FakeSession, "preflight", preflight)
    die(place)
    proposed = leaving(place)
    assert proposed is not None and proposed.ends_rehearsal
    mark(place)
    assert [finding.id for finding in check_upgrade(place.folder, TO).findings] == ["rehearsal.missing"]


def test_old_api_server_behind_the_load_balancer_ends_no_emulation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller is back with the version that it had, and answers: what the releases have counts, and not that."""
    containers = [{"name": "kube-apiserver", "command": ["kube-apiserver", "--emulated-version=1.36"]}]
    spec = {"template": {"spec": {"containers": containers}}}
    text = json.dumps({"kind": "Deployment", "metadata": {"name": "kube-apiserver"}, "spec": spec})
    seen = Observed(FROM, {}, {name: ObservedRelease((), text) for name in BUILT_IN_CHARTS})
    monkeypatch.setattr(FakeSession, "observe", lambda _: seen)
    mark(place)
    place.run_version(TO)
    found = returning(place)
    assert found is not None
    specs = [item.step.spec for item in found.pipeline.steps if isinstance(item.step, ChartStep)]
    assert {(each.values["kubernetesVersion"], each.values["emulatedVersion"]) for each in specs} == {(str(TO), "1.36")}


def test_another_one_is_down_when_it_is_back(place: Place) -> None:
    """That one is named, with its own ways on: the one that is back lacks nothing."""
    mark(place)
    die(place, NAMES[1])
    with pytest.raises(Blocked, match=f"left out of runs, and is back, but {NAMES[1]} can't be examined") as caught:
        returning(place)
    assert f"upgrader controllers remove {NAMES[1]} --dead, which also brings {LAST} back" in caught.value.remedy


def test_order_of_leaving_out(place: Place) -> None:
    """Marked, and without its label, before the releases count one less; the gates come once its pods are gone."""
    die(place)
    found = leaving(place)
    assert names(found) == ["healthy", "leave-out", "kube-apiserver", "kubernetes", "remove-pods", "mark"]
    assert found is not None
    gated = [item.step.name for item in found.pipeline.steps if item.gates]
    assert gated == ["healthy", "remove-pods"]
    assert [host.name for host in found.session.cluster.controllers] == list(NAMES[:2])


def test_values_count_the_others_without_an_edit(place: Place) -> None:
    """The files say how many there are when all are back: nothing has to be reverted in them."""
    die(place)
    found = leaving(place)
    assert found is not None
    values = {item.name: item.values for item in found.session.settings.pipeline if isinstance(item, ReleaseSettings)}
    assert values["kube-apiserver"]["replicas"] == 2
    assert values["kubernetes"] == {"controllerManager": {"replicas": 2}, "scheduler": {"replicas": 2}}
    assert (place.folder / "kube-apiserver.yaml").read_text() == "clusterName: demo\n"


def test_controller_is_marked_and_has_no_pods_any_more(place: Place) -> None:
    """Its pods can't be confirmed to have ended; its static pods are its kubelet's, and stay."""
    die(place)

    def pod(name: str, labels: dict[str, str]) -> KubeObject:
        meta = {"name": name, "namespace": "kube-system", "labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        return {"metadata": meta, "spec": {"nodeName": LAST, "containers": []}, "status": {}}

    of_apiserver = {"app.kubernetes.io/name": "kube-apiserver"}
    place.kube.put(PODS, pod("kube-apiserver-1", of_apiserver))
    place.kube.put(PODS, pod("pod-checkpointer-1", {"app.kubernetes.io/name": "pod-checkpointer"}))
    place.kube.put(PODS, pod("static-1", {"component": "etcd"}))
    found = leaving(place)
    do(found, "leave-out")
    assert LeftOut.of(node(place)) == LeftOut("leaving", FROM)
    assert CONTROL_PLANE not in node(place)["metadata"]["labels"]
    do(found, "remove-pods")
    assert [item["metadata"]["name"] for item in place.kube.list(PODS) if item["spec"].get("nodeName") == LAST] == [
        "static-1"
    ]
    do(found, "mark")
    assert LeftOut.of(node(place)) == LeftOut("out", FROM)
    assert leaving(place) is None


def test_controller_that_is_back_before_it_was_left_out(place: Place) -> None:
    """Nothing is taken from a controller that lives."""
    die(place)
    found = leaving(place)
    come_back(place)
    with pytest.raises(StepFailed, match="no longer down; it was not left out"):
        do(found, "leave-out")
    assert LeftOut.of(node(place)) is None and CONTROL_PLANE in node(place)["metadata"]["labels"]


def test_interrupted_leaving_out_is_continued(place: Place) -> None:
    """Also where it went down again in its return: the version stays that of the first time."""
    die(place)
    older = KubernetesVersion(1, 35, 9)
    for phase in ("leaving", "returning"):
        mark(place, phase, older)
        do(leaving(place), "leave-out")
        assert LeftOut.of(node(place)) == LeftOut("leaving", older)
        assert CONTROL_PLANE not in node(place)["metadata"]["labels"]


def test_return_waits_for_the_controller(place: Place) -> None:
    """Its node is Ready, it answers, and its member of etcd is healthy."""
    assert returning(place) is None, "nothing is left out"
    die(place)
    mark(place)
    with pytest.raises(Blocked, match=f"{LAST} is left out of runs, and not back yet: its node is not Ready") as no:
        returning(place)
    assert f"controllers remove {LAST} --dead" in no.value.remedy
    come_back(place)
    place.hosts.down.add(LAST)
    with pytest.raises(Blocked, match="not back yet"):
        returning(place)
    place.hosts.down.clear()
    found = returning(place)
    assert names(found) == ["healthy", "take-back", "kube-apiserver", "kubernetes", "returned", "mark"]
    assert found is not None and len(found.session.cluster.controllers) == len(NAMES)


def with_certificates(place: Place, *expired: str, folder: str = "") -> None:
    """Each controller has these certificates, which have expired, and one that is valid."""
    ca = CertificateAuthority.named("kubernetes")
    ended = printed({path: ca.issue("x", until=place.world.clock.now()) for path in expired})
    valid = printed({"pki/front-proxy-client.crt": ca.issue("x", until=place.world.clock.now() + DAY)})
    first = f"certificates-folder {encoded(folder)}\n" if folder else ""
    place.hosts.commands["sh"] = CommandResult(0, first + ended + valid, "")


@pytest.mark.parametrize(
    ("path", "folder", "remedy"),
    [
        ("/etc/kubernetes/pki/etcd/peer.crt", "", f"On {LAST}: kubeadm certs renew all\n"),
        ("/etc/kubernetes/ssl/etcd/peer.crt", "/etc/kubernetes/ssl", "renew all --cert-dir /etc/kubernetes/ssl\n"),
        ("/etc/kubernetes/admin.conf", "", "kubeadm certs renew all\n"),
        ("/etc/kubernetes/controller-manager.conf", "", "kubeadm certs renew all\n"),
        ("/etc/kubernetes/scheduler.conf", "/etc/kubernetes/ssl", "--cert-dir /etc/kubernetes/ssl\n"),
        ("/var/lib/kubelet/pki/kubelet-client-current.pem", "", f"--client-name system:node:{LAST}"),
    ],
)
def test_certificates_that_have_expired_while_it_was_away(place: Place, path: str, folder: str, remedy: str) -> None:
    """They are why etcd's member, its kubelet or its controllers don't come back: named first, with what renews them
    there, also in kubeconfigs and in another folder of kubeadm's.
    """
    mark(place)
    silent(place)
    with_certificates(place, path, folder=folder)
    with pytest.raises(
        Blocked, match=f"{LAST} was left out of runs, and can't return yet: certificates there"
    ) as caught:
        returning(place)
    assert path in caught.value.message and "front-proxy" not in caught.value.message
    assert remedy in caught.value.remedy and f"on {LAST}: systemctl restart kubelet" in caught.value.remedy


def test_expired_certificate_that_kubeadm_does_not_renew_keeps_no_controller_out(place: Place) -> None:
    """A copy that an operator left beside the others: no component uses it, and the command would not renew it."""
    mark(place)
    come_back(place)
    with_certificates(place, "/etc/kubernetes/pki/apiserver-2025.crt")
    assert "take-back" in names(returning(place))


def test_controller_that_returned(place: Place) -> None:
    """It has its label before the releases count it, and no mark once all gates have passed."""
    mark(place)
    found = returning(place)
    do(found, "take-back")
    assert LeftOut.of(node(place)) == LeftOut("returning", FROM)
    assert CONTROL_PLANE in node(place)["metadata"]["labels"]
    assert returning(place) is not None, "an interrupted return is continued"
    do(found, "mark")
    assert LeftOut.of(node(place)) is None and returning(place) is None


def test_upgrade_over_several_minors_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old kube-apiserver of the one that is left out may start at any moment."""
    monkeypatch.setattr(upgrade, "open_session", vars(left_out)["open_session"])
    mark(place)
    check_upgrade(place.folder, None)
    monkeypatch.setattr(upgrade, "upgrade_path", lambda *_: (TO, KubernetesVersion(1, 38, 0)))
    with pytest.raises(Blocked, match=r"several minor versions ahead, but controller-3 is left out of runs"):
        check_upgrade(place.folder, None)


def test_interrupted_upgrade_goes_on_without_the_controller(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In either direction, and whatever upgrader.yaml says by now: the run began with two."""
    monkeypatch.setattr(existing_run, "open_session", vars(left_out)["open_session"])
    place.interrupt(RunKind.UPGRADE)
    mark(place)
    with existing_run.existing_run(place.folder, None, FrontEnd(), take_over=False) as found:
        assert [host.name for host in found.session.cluster.controllers] == list(NAMES[:2])
        assert found.session.left_out == {LAST: LeftOut("out", FROM)}


def test_api_that_is_away_returns_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """`resume` goes on to say what restores it."""

    def away(*_: object) -> None:
        raise ApiUnavailable("refused")

    monkeypatch.setattr(place.kube, "get", away)
    assert returning(place) is None


def test_mark_that_cannot_be_read(place: Place) -> None:
    """It still says that leaving out has begun; nothing is known of the version."""
    meta = {**node(place)["metadata"], "annotations": {LEFT_OUT: "[]"}}
    assert LeftOut.of({**node(place), "metadata": meta}) == LeftOut("leaving", None)


def test_backup_goes_on_without_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files can't be read; that they are missing is said. Where no mark can be read, all controllers are meant."""

    def controllers(session: FakeSession) -> SimpleNamespace:
        return SimpleNamespace(take=lambda _: [host.name for host in session.cluster.controllers])

    monkeypatch.setattr(backup, "open_session", vars(left_out)["open_session"])
    monkeypatch.setattr(FakeSession, "backup_taker", property(controllers))
    mark(place)
    said, doing = list[str](), list[str]()
    taken: Any = backup.take_backup(place.folder, FrontEnd(notify=said.append, doing=doing.append))
    assert taken == list(NAMES[:2])
    (told,) = said
    assert doing[0] == READS_FOLDER and doing[-1] == ""
    assert told.startswith(f"Controller {LAST} is left out of runs, so this command does nothing there.")
    assert "Once it is back: upgrader resume, then `upgrader backup` again" in told

    def away(*_: object) -> None:
        raise ApiUnavailable("refused")

    monkeypatch.setattr(place.kube, "get", away)
    taken = backup.take_backup(place.folder, FrontEnd())
    assert taken == list(NAMES)


def test_recovery_goes_on_without_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't asked, and no gate waits for it; that is said, as a backup does. Where no mark can be read, what to do
    then is said.
    """
    monkeypatch.setattr(recovery, "open_session", vars(left_out)["open_session"])
    die(place)
    mark(place)
    said, doing = list[str](), list[str]()

    def recovered(only: tuple[str, ...] = ()) -> list[str]:
        shown = FrontEnd(notify=said.append, doing=doing.append)
        with recovery.propose_recovery(place.folder, only, shown, dry_run=True) as proposed:
            assert doing[0] == READS_FOLDER and doing[-1] == ""
            assert proposed.tools.cluster == proposed.session.cluster
            return [item.host.name for item in proposed.seen.controllers]

    assert recovered() == list(NAMES[:2])
    (told,) = said
    assert told.startswith(
        f"Controller {LAST} is left out of runs, so this command does nothing there"
    ) and told.endswith("upgrader resume")
    with pytest.raises(UsageError, match=f"controller {LAST} is left out of runs") as caught:
        recovered((LAST,))
    assert "upgrader resume" in caught.value.remedy

    def away(*_: object) -> None:
        raise ApiUnavailable("refused")

    monkeypatch.setattr(place.kube, "get", away)
    assert recovered() == list(NAMES)
    assert "interrupt the run once the API answers, and run the command again" in said[-1]
