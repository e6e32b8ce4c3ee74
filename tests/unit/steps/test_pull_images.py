"""The step that has every image of a plan on its nodes before anything changes."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.waiting import stretched
from tests.unit.steps.kubelets import DIGEST, PODS, Kubelets, pulled, waiting
from upgrader.errors import ApiError, ApiUnavailable, StepFailed
from upgrader.model.health_before import IntOrPercent
from upgrader.model.image_settings import ImageSettings
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import AT_ONCE, Kind, KubeObject
from upgrader.steps.images.pull_images import PullImagesStep
from upgrader.steps.images.puller_pod import LABELS
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease

OTHER = "sha256:" + "b" * 64
PROXY = """
kind: DaemonSet
metadata: {name: kube-proxy}
spec: {template: {spec: {hostNetwork: true, containers: [{name: kube-proxy, image: 'r.io/kube-proxy:v2'}]}}}
"""
SCHEDULER = """
kind: Deployment
metadata: {name: scheduler}
spec: {template: {spec: {nodeSelector: {role: control}, containers: [{name: main, image: 'r.io/scheduler:v2'}]}}}
"""


def step(
    kube: Kubelets, *manifests: str, parallel: IntOrPercent | None = None, clock: FakeClock | None = None
) -> PullImagesStep:
    """Of a plan of one release in kube-system."""
    text = "\n---\n".join(manifests or (PROXY,))
    release = PlannedRelease(ReleaseSpec("app", "kube-system", Path("/c")), "upgrade", "change", "", text, ())
    plan = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), (release,))
    made = PullImagesStep.of(plan, kube, clock or FakeClock(), ImageSettings(parallel=parallel))
    assert made is not None
    return made


def apply(kube: Kubelets, *manifests: str, **options: Any) -> list[str]:
    """Apply it; returns its notes."""
    notes: list[str] = []
    step(kube, *manifests, **options).apply(notes.append)
    return notes


def fail(kube: Kubelets, *manifests: str, **options: Any) -> StepFailed:
    """Apply it, which fails; no pod is left behind."""
    with pytest.raises(StepFailed) as caught:
        apply(kube, *manifests, **options)
    assert not kube.list(PODS)
    assert caught.value.remedy
    return caught.value


def test_every_node_that_needs_an_image_pulls_it() -> None:
    """A DaemonSet's image on all nodes, another one only where its pods may run; no pod stays."""
    kube = Kubelets("worker-1", "worker-2")
    kube.add_node("controller-1", role="control")
    notes = apply(kube, PROXY, SCHEDULER)
    asked = sorted((pod["spec"]["nodeName"], item["image"]) for pod in kube.created for item in _containers(pod))
    assert asked == [
        ("controller-1", "r.io/kube-proxy:v2"),
        ("controller-1", "r.io/scheduler:v2"),
        ("worker-1", "r.io/kube-proxy:v2"),
        ("worker-2", "r.io/kube-proxy:v2"),
    ]
    assert not kube.list(PODS)
    assert f"r.io/kube-proxy:v2 is {DIGEST} (3 nodes)" in notes
    assert notes[-1] == "all images are on their nodes; 3 nodes had to pull images"


def _containers(pod: KubeObject) -> list[dict[str, Any]]:
    return list(pod["spec"]["containers"])


def test_a_thousand_nodes_are_read_in_two_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all have their images, the step costs three lists: of left-over pods, and of the nodes."""
    kube, lists = Kubelets(), list[str]()
    for number in range(1000):
        kube.add_node(f"worker-{number}", ["r.io/kube-proxy:v2"])
    each, listed = kube.each, kube.list

    def in_pages(kind: Kind, namespace: str = "", *, at_once: int = AT_ONCE, **how: Any) -> Iterator[KubeObject]:
        for number, item in enumerate(each(kind, namespace, **how)):
            lists.extend([kind.plural] * (number % at_once == 0))
            yield item

    def counted(kind: Kind, *given: Any, **named: Any) -> tuple[KubeObject, ...]:
        lists.extend([kind.plural] * (kind == PODS))
        return listed(kind, *given, **named)

    monkeypatch.setattr(kube, "each", in_pages)
    monkeypatch.setattr(kube, "list", counted)
    apply(kube)
    assert sorted(lists) == ["nodes", "nodes", "pods"] and not kube.created


class Mortal(dict[str, Any]):
    """An object that, unlike a plain dict, tells when it is gone."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_what_nodes_list_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a thousand nodes pull, none of them is in memory with the images that its kubelet reports."""
    kube, alive = Kubelets(*(f"worker-{number}" for number in range(20))), weakref.WeakSet[Mortal]()
    each, create, most = kube.each, kube.create, [0]

    def mortal(*given: Any, **named: Any) -> Iterator[KubeObject]:
        for item in each(*given, **named):
            made = Mortal(item)
            alive.add(made)
            yield made
            del made

    def counted(*given: Any, **named: Any) -> KubeObject:
        most.append(len(alive))
        return create(*given, **named)

    monkeypatch.setattr(kube, "each", mortal)
    monkeypatch.setattr(kube, "create", counted)
    apply(kube)
    pulled_on, kept = len(kube.created), max(most)
    assert (pulled_on, kept <= 1) == (20, True)


def test_nodes_that_list_their_images_are_not_asked() -> None:
    """A repeated run, or a site that loads its nodes itself, costs one read."""
    kube, clock = Kubelets(), FakeClock()
    kube.add_node("n1", ["r.io/kube-proxy:v2", f"r.io/kube-proxy@{DIGEST}"])
    notes = apply(kube, clock=clock)
    assert kube.created == []
    assert clock.monotonic() == 0.0
    assert notes == [f"r.io/kube-proxy:v2 is {DIGEST} (1 node)", "all images are on their nodes; no node lacked any"]


@pytest.mark.parametrize(
    "image", ["{image: 'r.io/tool:latest'}", "{image: r.io/tool}", "{image: 'r.io/tool:1', imagePullPolicy: Always}"]
)
def test_images_that_are_always_pulled_are_pulled_now_as_well(image: str) -> None:
    """Where the kubelet would ask the registry in the middle of the run, it has to answer before the run."""
    kube = Kubelets()
    kube.add_node("n1", ["r.io/tool:latest", "r.io/tool:1"])
    apply(kube, f"kind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{image}]}}")
    assert len(kube.created) == 1


def test_pods_are_harmless() -> None:
    """They run nothing of the image, as nobody, on their node whatever its taints, and end by themselves."""
    kube = Kubelets("n1")
    apply(kube)
    (pod,) = kube.created
    spec, (container,) = pod["spec"], _containers(pod)
    assert container["command"] == ["/upgrader-only-pulls-this-image"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 65534
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (spec["nodeName"], spec["tolerations"]) == ("n1", [{"operator": "Exists"}])
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 660), "later than the step gives up"
    assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "upgrader"
    for marks in (pod["metadata"]["labels"], pod["metadata"]["annotations"]):
        assert (marks["sidecar.istio.io/inject"], marks["linkerd.io/inject"]) == ("false", "disabled")
    assert spec["hostNetwork"], "as the DaemonSet's own pods: a node without free addresses pulls as well"


def test_images_are_pulled_as_the_workload_would() -> None:
    """With its ServiceAccount, where that exists already, its secrets, its policy and its runtime class."""
    kube = Kubelets("n1")
    kube.put(Kind("v1", "serviceaccounts"), {"metadata": {"name": "runner"}}, "apps")
    pod = """
kind: Pod
metadata: {name: %s, namespace: apps}
spec:
  serviceAccountName: %s
  runtimeClassName: kata
  imagePullSecrets: [{name: login}]
  containers: [{image: 'a:1', imagePullPolicy: Never}]
"""
    apply(kube, pod % ("a", "runner"), pod % ("b", "brought-by-the-release"))
    specs = {created["spec"]["serviceAccountName"]: created["spec"] for created in kube.created}
    assert specs.keys() == {"runner", "default"}
    there = specs["runner"]
    assert there["imagePullSecrets"] == [{"name": "login"}]
    assert there["runtimeClassName"] == "kata"
    assert there["containers"][0]["imagePullPolicy"] == "Never"


def test_what_the_release_itself_brings_is_not_waited_for() -> None:
    """Without its namespace, or the Secret that it is pulled with, an image can't be pulled yet: it is said."""
    kube = Kubelets("n1")
    new = "{kind: Pod, metadata: {name: a, namespace: new}, spec: {containers: [{image: 'a:1'}]}}"
    own = (
        "{kind: Pod, metadata: {name: b, namespace: apps}, "
        "spec: {imagePullSecrets: [{name: login}], containers: [{image: 'b:1'}]}}\n---\n"
        "{kind: Secret, metadata: {name: login, namespace: apps}}"
    )
    notes = apply(kube, new, own)
    assert kube.created == []
    assert "Pod new/a: its images can't be pulled before its namespace exists" in notes
    assert "Pod apps/b: its images can't be pulled before its release creates Secret login" in notes


@pytest.mark.parametrize(("status", "goes_on"), [(403, True), (500, False)])
def test_what_may_not_be_read_is_taken_to_be_there(status: int, goes_on: bool) -> None:
    """A run's credentials need not read namespaces; an API that fails is another matter."""
    kube = Kubelets("n1")
    refused = ApiError("namespaces is forbidden")
    refused.status = status

    def refuse(kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        raise refused

    kube.get = refuse  # type: ignore[method-assign]
    if goes_on:
        assert apply(kube)[-1].startswith("all images are on their nodes")
    else:
        with pytest.raises(ApiError):
            apply(kube)


def test_only_some_nodes_pull_at_once() -> None:
    """The registry is spared; every node has its turn."""
    kube = Kubelets(*(f"n{number}" for number in range(7)))
    apply(kube, parallel=IntOrPercent(count=3))
    assert (len(kube.created), kube.most_at_once) == (7, 3)


@pytest.mark.parametrize(("nodes", "at_once"), [(4, 4), (60, 10), (300, 30)])
def test_a_tenth_of_the_nodes_pulls_at_once(nodes: int, at_once: int) -> None:
    """A large cluster is not a queue of ten: as many pull as would when kube-proxy is replaced."""
    kube = Kubelets(*(f"n{number}" for number in range(nodes)))
    apply(kube)
    assert (len(kube.created), kube.most_at_once) == (nodes, at_once)


def test_node_that_is_not_ready_is_left_out() -> None:
    """No kubelet works there: the gates decide how many such nodes a run accepts."""
    kube = Kubelets("n1")
    kube.add_node("n2", ready="Unknown")
    notes = apply(kube)
    assert [pod["spec"]["nodeName"] for pod in kube.created] == ["n1"]
    assert "not Ready, so images were not pulled: n2" in notes


def test_image_that_does_not_exist() -> None:
    """After a minute of failures the step fails, with the node, the image and the registry's own words."""
    kube, clock = Kubelets("n1", "n2"), FakeClock()

    def answer(node: str, image: str) -> dict[str, Any]:
        if clock.monotonic() > 10:
            return waiting("ImagePullBackOff", f"Back-off pulling image {image}")
        return waiting("ErrImagePull", "r.io/kube-proxy:v2: not found")

    kube.answer = answer
    error = fail(kube, clock=clock)
    assert "n1 can't pull r.io/kube-proxy:v2: ErrImagePull: r.io/kube-proxy:v2: not found" in error.message
    assert "The image isn't on n2 yet, either." in error.message
    assert 60 <= clock.monotonic() < 65


def test_registry_that_fails_for_a_moment_is_asked_again() -> None:
    """The kubelet tries again, and so does the step."""
    kube, clock = Kubelets("n1"), FakeClock()
    kube.answer = lambda node, image: waiting("ErrImagePull", "timeout") if clock.monotonic() < 40 else pulled(image)
    assert apply(kube, clock=clock)[-1].startswith("all images are on their nodes")


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_what_no_retry_changes_fails_at_once(reason: str) -> None:
    """The kubelet itself gives up."""
    kube, clock = Kubelets("n1"), FakeClock()
    kube.answer = lambda node, image: waiting(reason, "as it says")
    assert reason in fail(kube, clock=clock).message
    assert clock.monotonic() == 1.0


def test_container_that_can_not_be_created_has_its_image() -> None:
    """A runtime that looks for the command before it creates the container says so in its own way."""
    kube = Kubelets("n1")
    kube.answer = lambda node, image: waiting("CreateContainerError", "executable file not found")
    assert apply(kube) == ["all images are on their nodes; 1 node had to pull images"]


def test_slow_node_meets_the_deadline() -> None:
    """The message names what is missing, for how long, and the kubelet's warnings."""
    kube, clock = Kubelets("n1"), FakeClock()
    kube.answer = lambda node, image: waiting("ContainerCreating")

    def warn(kind: Kind, namespace: str = "", **selectors: str) -> tuple[KubeObject, ...]:
        found = Kubelets.list(kube, kind, namespace, **selectors)
        return ({"type": "Warning", "message": "no address left"},) if kind.plural == "events" else found

    kube.list = warn  # type: ignore[method-assign]
    error = fail(kube, clock=clock)
    assert "n1 has not pulled r.io/kube-proxy:v2 within 600 s: ContainerCreating\n  no address left" in error.message
    assert "images.deadline" in error.remedy


def test_kubelet_that_has_said_nothing() -> None:
    """A pod without a status is not taken for one that is done."""
    kube = Kubelets("n1")
    kube.answer = lambda node, image: None
    assert "n1 has not pulled r.io/kube-proxy:v2 within 600 s" in fail(kube).message


def refuse_pods(kube: Kubelets, node: str, reason: str) -> None:
    """Have a node's kubelet refuse all pods."""
    kube.answer = lambda name, image: None if name == node else pulled(image)
    real = kube.create

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        status = {"phase": "Failed", "reason": reason, "message": "as the kubelet says"}
        mine = manifest["spec"]["nodeName"] == node
        return real(kind, {**manifest, "status": status} if mine else manifest, namespace, **options)

    kube.create = create  # type: ignore[method-assign]


def test_node_that_refuses_the_pod() -> None:
    """A node whose disk has no room for the images says so."""
    kube = Kubelets("n1")
    refuse_pods(kube, "n1", "Evicted")
    assert "n1 rejected the pod that pulls images: Evicted: as the kubelet says" in fail(kube).message


@pytest.mark.parametrize("reason", ["OutOfpods", "OutOfcpu", "NodeAffinity", "NodeShutdown", "Preempting"])
def test_node_without_a_place_for_one_more_pod(reason: str) -> None:
    """A full node is an ordinary one: the workload's own pod takes the place of an older one there."""
    kube = Kubelets("n1", "n2")
    refuse_pods(kube, "n1", reason)
    notes = apply(kube)
    assert any(note.startswith(f"n1 has no room for a pod that pulls images ({reason}: ") for note in notes)
    assert f"r.io/kube-proxy:v2 is {DIGEST} (1 node)" in notes
    assert not kube.list(PODS)


@pytest.mark.parametrize("removed", [True, False])
def test_node_that_goes_away_meanwhile(removed: bool) -> None:
    """An autoscaler removes nodes at any time; the cluster then removes their pods, or they stay as they were."""
    kube, clock = Kubelets("n1", "n2"), FakeClock()
    kube.answer = lambda name, image: None if name == "n1" else pulled(image)
    real = kube.create

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        done = real(kind, manifest, namespace, **options)
        if manifest["spec"]["nodeName"] == "n1" and removed:
            kube.delete(Kind("v1", "nodes", namespaced=False), "n1")
            kube.delete(kind, manifest["metadata"]["name"], namespace)
        elif manifest["spec"]["nodeName"] == "n1":
            kube.add_node("n1", ready="Unknown")
        return done

    kube.create = create  # type: ignore[method-assign]
    notes = apply(kube, clock=clock)
    assert any(note.startswith(f"n1 {'was removed' if removed else 'is no longer Ready'}: ") for note in notes)
    assert not kube.list(PODS)
    assert removed == (clock.monotonic() < 60)


@pytest.mark.parametrize(
    "status", [{"state": {"terminated": {"reason": "ContainerStatusUnknown"}}}, waiting("SomethingNew", "who knows")]
)
def test_what_proves_nothing_is_not_taken_for_an_image(status: dict[str, Any]) -> None:
    """A container that the kubelet gave up may never have had its image; nor does an unknown reason say so."""
    kube = Kubelets("n1")
    kube.answer = lambda node, image: status
    assert "n1 has not pulled r.io/kube-proxy:v2 within 600 s" in fail(kube).message


def test_pods_of_many_nodes_are_created_and_removed_together() -> None:
    """One after the other, a thousand nodes would wait for requests alone."""
    kube = Kubelets(*(f"n{number}" for number in range(8)))
    real_create, real_delete, together = kube.create, kube.delete, Barrier(4, timeout=stretched(60))

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        together.wait()  # each waits for three others
        return real_create(kind, manifest, namespace, **options)

    def delete(kind: Kind, name: str, namespace: str = "", **options: bool) -> None:
        together.wait()
        real_delete(kind, name, namespace, **options)

    kube.create, kube.delete = create, delete  # type: ignore[method-assign]
    assert f"r.io/kube-proxy:v2 is {DIGEST} (8 nodes)" in apply(kube)
    assert not kube.list(PODS)


@pytest.mark.parametrize("nodes", [10, 60])
def test_waiting_for_more_nodes_takes_no_more_requests(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    """A round is one list of the pods that pull, however many there are; each node has its pod made and removed."""
    kube, clock = Kubelets(*(f"n{number:03}" for number in range(nodes))), FakeClock()
    kube.answer = lambda _, image: pulled(image) if clock.monotonic() > 60 else waiting("ContainerCreating")
    asked, check = Counter[str](), kube._check

    def counted(what: str) -> None:
        asked[" ".join(what.split()[:2])] += 1
        check(what)

    monkeypatch.setattr(kube, "_check", counted)
    listed = kube.list
    lists = list[float]()

    def noted(kind: Kind, *given: Any, **named: Any) -> tuple[KubeObject, ...]:
        lists.extend([clock.monotonic()] * (kind == PODS))
        return listed(kind, *given, **named)

    monkeypatch.setattr(kube, "list", noted)
    apply(kube, parallel=IntOrPercent(percent=100), clock=clock)
    assert asked["create pods"] == asked["delete pods"] == nodes
    assert asked["get nodes"] == 0
    assert len(lists) <= clock.monotonic() + 3, "one a second, and one before"


def test_only_what_was_refused_is_created_again() -> None:
    """A webhook that is away for a moment delays its own node's pod; the others' are there and stay."""
    kube, clock, refused = Kubelets("n1", "n2", "n3"), FakeClock(), list[str]()
    real = kube.create

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        node = manifest["spec"]["nodeName"]
        if node == "n2" and len(refused) < 3:
            refused.append(node)
            error = ApiError("failed calling webhook")
            error.status = 500
            raise error
        return real(kind, manifest, namespace, **options)

    kube.create = create  # type: ignore[method-assign]
    apply(kube, clock=clock)
    assert sorted(pod["spec"]["nodeName"] for pod in kube.created) == ["n1", "n2", "n3"]
    assert clock.monotonic() == 2 * 2, "two pauses, then at once the poll that finds all of them done"


def test_requests_for_the_next_nodes_are_part_of_the_pause() -> None:
    """A registry that is asked by some nodes at a time is not left idle for the pause and those requests."""
    kube, clock = Kubelets("n1", "n2", "n3"), FakeClock()
    real = kube.create

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        clock.sleep(0.75)
        return real(kind, manifest, namespace, **options)

    kube.create = create  # type: ignore[method-assign]
    apply(kube, clock=clock, parallel=IntOrPercent(count=1))
    assert clock.monotonic() == 3.0


def test_pods_that_are_not_admitted() -> None:
    """A quota, a policy or a webhook may refuse them: in the API server's own words, with what to allow."""
    kube = Kubelets("n1")
    kube.refuses_pods = ApiError("exceeded quota: pods=0")
    error = fail(kube)
    assert "no pod could be created in namespace kube-system to pull images on n1: exceeded quota" in error.message
    assert "images.pull: false" in error.remedy


def test_pod_that_someone_deletes() -> None:
    """What became of its images is not known."""
    kube = Kubelets("n1")
    real = kube.create

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        done = real(kind, manifest, namespace, **options)
        kube.delete(kind, manifest["metadata"]["name"], namespace)
        return done

    kube.create = create  # type: ignore[method-assign]
    assert "was deleted before n1 had pulled its images" in fail(kube).message


def test_pod_that_is_evicted_is_made_once_more() -> None:
    """An autoscaler drains a node before it removes it, or a machine is replaced under its name: no fault."""
    kube, evicted = Kubelets("n1", "n2"), list[str]()
    real = kube.create

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        done = real(kind, manifest, namespace, **options)
        if not evicted and manifest["spec"]["nodeName"] == "n1":
            evicted.append(manifest["metadata"]["name"])
            kube.delete(kind, evicted[0], namespace)
        return done

    kube.create = create  # type: ignore[method-assign]
    notes = apply(kube)
    nodes = [pod["spec"]["nodeName"] for pod in kube.created]
    assert sorted(nodes) == ["n1", "n1", "n2"] and len({pod["metadata"]["name"] for pod in kube.created}) == 3
    assert f"pod kube-system/{evicted[0]} was deleted before n1 had pulled its images: it is created again" in notes
    assert not kube.list(PODS)


def test_api_that_is_away_for_a_moment_is_waited_for() -> None:
    """Nothing is changed yet: there is no hurry. A pod that was created with its answer lost is the same pod."""
    kube, clock = Kubelets("n1"), FakeClock()
    real_create, real_list, lost = kube.create, kube.list, [1, 1]

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        try:
            done = real_create(kind, manifest, namespace, **options)
        except ApiError as error:
            error.status = 409
            raise
        if lost:
            lost.pop()
            raise ApiUnavailable("timed out")
        return done

    def read(kind: Kind, namespace: str = "", **selectors: str) -> tuple[KubeObject, ...]:
        if namespace and clock.monotonic() < 10:
            raise ApiUnavailable("timed out")
        return real_list(kind, namespace, **selectors)

    kube.create, kube.list = create, read  # type: ignore[method-assign]
    assert apply(kube, clock=clock)[-1].startswith("all images are on their nodes")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (409, 'Operation cannot be fulfilled on resourcequotas "all": the object has been modified'),
        (500, "failed calling webhook: connection refused"),
        (500, "etcdserver: leader changed"),
    ],
)
def test_refusal_that_passes_is_waited_for(status: int, words: str) -> None:
    """A quota that somebody else counted up at that moment, a webhook that restarts, an etcd that elects a leader."""
    kube, clock = Kubelets("n1"), FakeClock()
    real_create, real_list = kube.create, kube.list
    refused = ApiError(words)
    refused.status = status

    def create(kind: Kind, manifest: KubeObject, namespace: str = "", **options: bool) -> KubeObject:
        if clock.monotonic() < 10:
            raise refused
        return real_create(kind, manifest, namespace, **options)

    def read(kind: Kind, namespace: str = "", **selectors: str) -> tuple[KubeObject, ...]:
        if namespace and status == 500 and 10 <= clock.monotonic() < 20:
            raise refused
        return real_list(kind, namespace, **selectors)

    kube.create, kube.list = create, read  # type: ignore[method-assign]
    assert apply(kube, clock=clock)[-1].startswith("all images are on their nodes")
    assert clock.monotonic() >= (20 if status == 500 else 10)


def test_failure_that_nobody_could_look_at_is_looked_at_again() -> None:
    """A registry may be back before the API is: what was last seen is not what is."""
    kube, clock = Kubelets("n1"), FakeClock()
    kube.answer = lambda node, image: waiting("ErrImagePull", "timeout") if clock.monotonic() < 5 else pulled(image)
    real_list = kube.list

    def read(kind: Kind, namespace: str = "", **selectors: str) -> tuple[KubeObject, ...]:
        if namespace and 3 < clock.monotonic() < 75:
            raise ApiUnavailable("timed out")
        return real_list(kind, namespace, **selectors)

    kube.list = read  # type: ignore[method-assign]
    assert apply(kube, clock=clock)[-1].startswith("all images are on their nodes")


def test_refusal_that_lasts_fails() -> None:
    """A webhook that is gone refuses for more than a minute."""
    kube, clock = Kubelets("n1"), FakeClock()
    kube.refuses_pods = ApiError("failed calling webhook: connection refused")
    kube.refuses_pods.status = 500
    assert "failed calling webhook" in fail(kube, clock=clock).message
    assert 60 <= clock.monotonic() < 65


def test_pods_of_an_interrupted_run_are_removed() -> None:
    """A killed run can't remove its own."""
    kube = Kubelets()
    kube.put(PODS, {"metadata": {"name": "old", "namespace": "apps", "labels": LABELS}, "spec": {"containers": []}})
    other = {"metadata": {"name": "other", "namespace": "apps", "labels": {}}, "spec": {"containers": []}}
    kube.put(PODS, other)
    apply(kube)
    assert [pod["metadata"]["name"] for pod in kube.list(PODS)] == ["other"]


def test_pods_that_can_not_be_removed_are_named() -> None:
    """The images are there: that is no reason to fail."""
    kube = Kubelets("n1")

    def refuse(kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        raise ApiError("refused by a webhook")

    kube.delete = refuse  # type: ignore[method-assign]
    for _ in ("this run", "the next one, which finds it"):
        assert any("the next run deletes it: refused by a webhook" in note for note in apply(kube))


@pytest.mark.parametrize("listed", [False, True])
def test_different_images_of_one_name_fail(listed: bool) -> None:
    """A tag that was moved: half of the nodes would run something else."""
    kube = Kubelets("n1", "n2")
    if listed:
        kube.add_node("n3", ["r.io/kube-proxy:v2", f"r.io/kube-proxy@{OTHER}"])
    else:
        kube.add_node("n3")
    kube.answer = lambda node, image: pulled(image, OTHER if node == "n3" else DIGEST)
    error = fail(kube)
    assert f"r.io/kube-proxy:v2 is {DIGEST} on n1, n2; {OTHER} on n3" in error.message
    assert "by its digest" in error.remedy


def test_image_ids_are_compared_within_an_architecture() -> None:
    """An image without a registry's digest has its own ID, which differs between architectures."""
    kube = Kubelets("n1", "n2")
    ids = {"n1": DIGEST, "n2": OTHER}
    kube.answer = lambda node, image: {**pulled(image), "imageID": ids[node]}
    assert "nodes have different images with the same name" in fail(kube).message
    arm = {"metadata": {"name": "n2"}, "status": {**_status(kube, "n2"), "nodeInfo": {"architecture": "arm64"}}}
    kube.put(Kind("v1", "nodes", namespaced=False), arm)
    assert apply(kube)[-1].startswith("all images are on their nodes")


def _status(kube: Kubelets, name: str) -> dict[str, Any]:
    found = kube.get(Kind("v1", "nodes", namespaced=False), name)
    assert found is not None
    return dict(found["status"])


@pytest.mark.parametrize("other", ["docker.io/library/import-2026-11-23", "mirror.corp/kube-proxy"])
def test_digests_of_other_repositories_are_not_compared(other: str) -> None:
    """What was imported, or came by way of a mirror, has the same content under another digest."""
    kube = Kubelets("n1")
    kube.add_node("n2", [f"{other}@{OTHER}", "r.io/kube-proxy:v2"])
    assert f"r.io/kube-proxy:v2 is {DIGEST} (1 node)" in apply(kube)
    kube = Kubelets("n1", "n2")
    kube.answer = lambda node, image: (
        pulled(image) if node == "n1" else {**pulled(image), "imageID": f"{other}@{OTHER}"}
    )
    assert f"r.io/kube-proxy:v2 is {DIGEST} (1 node)" in apply(kube)


def test_digests_are_compared_within_an_architecture() -> None:
    """A runtime may name the manifest of its own architecture instead of the index."""
    kube = Kubelets("n1")
    kube.put(
        Kind("v1", "nodes", namespaced=False),
        {"metadata": {"name": "n2"}, "status": {**_status(kube, "n1"), "nodeInfo": {"architecture": "arm64"}}},
    )
    kube.answer = lambda node, image: pulled(image, OTHER if node == "n2" else DIGEST)
    assert f"r.io/kube-proxy:v2 is {DIGEST}, {OTHER} (2 nodes)" in apply(kube)


def test_old_content_of_what_is_always_pulled_is_not_compared() -> None:
    """A tag that is meant to move: a node that is away still has what it was before."""
    kube = Kubelets("n1")
    kube.add_node("n2", ["r.io/tool:latest", f"r.io/tool@{OTHER}"], ready="Unknown")
    notes = apply(kube, PROXY.replace("kube-proxy:v2", "tool:latest"))
    assert f"r.io/tool:latest is {DIGEST} (1 node)" in notes


def test_progress_is_noted_now_and_then() -> None:
    """Whoever waits sees for what; a thousand nodes don't fill the journal."""
    kube, clock = Kubelets("n1", "n2"), FakeClock()
    kube.answer = lambda node, image: (
        pulled(image) if clock.monotonic() > 40 or node == "n1" else waiting("ContainerCreating")
    )
    notes = apply(kube, clock=clock)
    assert [note for note in notes if "pulling on" in note] == [
        "1 of 2 nodes have their images; pulling on n2 (1 to go)"
    ] * 2


def test_step_says_what_it_does() -> None:
    """How many images, not which: those are in the plan."""
    made = step(Kubelets(), PROXY, SCHEDULER)
    assert (made.name, made.summary()) == ("images", "pre-pull 2 images")
