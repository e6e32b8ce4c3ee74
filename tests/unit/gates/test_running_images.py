"""A rollout that is complete, with other programs than planned."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_deployment, add_node, add_pod, running
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.gate_memory import GateMemory
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.gates.started_version import image_version, started_version
from upgrader.model.cluster import Cluster
from upgrader.model.found_images import FoundImages
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.version import KubernetesVersion

SCHEDULER, PROXY, DNS = "kube-scheduler", "kube-proxy", "coredns"
IMAGE = "registry.k8s.io/kube-scheduler:v1.37.1"
MANIFEST = """
kind: {kind}
metadata: {{name: {name}}}
spec: {{template: {{spec: {{containers: [{{name: {name}, image: "{image}"}}]}}}}}}
"""


def verdict(
    kube: FakeKube,
    cluster: Cluster,
    name: str = SCHEDULER,
    image: str = IMAGE,
    memory: GateMemory | None = None,
    *,
    brought: KubernetesVersion | None = None,
    **more: bool,
) -> Verdict:
    """What the gate of a workload of the release `kubernetes` says, planned with this image and just applied."""
    kind = "DaemonSet" if name == PROXY else "Deployment"
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(1, 1.0, 60.0), memory=memory or GateMemory())
    manifest = MANIFEST.format(kind=kind, name=name, image=image)
    more = {"applied": True, **more}
    new = {name: brought} if brought else {}
    gates = catalog.own("kubernetes", manifest, namespace="kube-system", target=None, brought=new, **more)
    return gates[0].gate.check()


def two_pods(
    kube: FakeKube,
    first: str,
    second: str,
    image: str = IMAGE,
    architectures: tuple[str, str] = ("amd64", "amd64"),
    **nodes: list[str],
) -> None:
    """Of kube-scheduler, by what their kubelets say of their images; `nodes` list these names of one image each."""
    add_deployment(kube, SCHEDULER, replicas=2)
    for number, image_id in enumerate((first, second), start=1):
        name = f"controller-{number}"
        add_pod(kube, SCHEDULER, running(SCHEDULER, image=image, image_id=image_id), node=name)
        add_node(kube, name)
        node = dict(kube.get(NODES, name) or {})
        node["status"] = {
            **node["status"],
            "images": [{"names": nodes.get(f"node_{number}", [])}],
            "nodeInfo": {"architecture": architectures[number - 1]},
        }
        kube.put(NODES, node)


def log(kube: FakeKube, pod: str, name: str, text: str | Exception) -> None:
    """What the log of a pod begins with."""
    path = f"/api/v1/namespaces/kube-system/pods/{pod}/log?container={name}&limitBytes=65536"
    kube.raw_answers[path] = text


@pytest.mark.parametrize(
    ("runs", "planned"),
    [
        (IMAGE, IMAGE),
        ("mirror.example.com/kube-scheduler:v1.37.1", IMAGE),  # a webhook rewrites where images come from
        (f"{IMAGE}@sha256:1", IMAGE),  # one that adds the digest
        ("registry.k8s.io/kube-scheduler@sha256:1", IMAGE),  # one that replaces the tag by what it is
        ("registry.k8s.io/kube-scheduler@sha256:1", "registry.k8s.io/kube-scheduler@sha256:1"),
    ],
)
def test_planned_images_hold(kube: FakeKube, cluster: Cluster, runs: str, planned: str) -> None:
    """The same tag or digest, wherever it is pulled from."""
    two_pods(kube, "x@sha256:1", "x@sha256:1", image=runs)
    assert verdict(kube, cluster, image=planned).kind is VerdictKind.HOLDS


@pytest.mark.parametrize(
    ("runs", "planned"),
    [
        ("registry.k8s.io/kube-scheduler:v1.36.3", IMAGE),
        ("registry.k8s.io/kube-scheduler@sha256:1", "registry.k8s.io/kube-scheduler@sha256:2"),
        (IMAGE, "registry.k8s.io/kube-scheduler@sha256:2"),
    ],
)
def test_pods_with_another_image_than_planned(kube: FakeKube, cluster: Cluster, runs: str, planned: str) -> None:
    """A webhook or a person has changed it, and the rollout is complete with that: the new version doesn't run."""
    two_pods(kube, "x@sha256:1", "x@sha256:1", image=runs)
    found = verdict(kube, cluster, image=planned)
    assert found.kind is VerdictKind.PENDING
    assert f"pod kube-scheduler-1-controller-1 runs {runs}, not {planned}" in found.reason


def test_one_name_two_contents(kube: FakeKube, cluster: Cluster) -> None:
    """A tag was moved, and a node has the older content: its pod is Ready and of the newest revision all the same."""
    two_pods(kube, "registry.k8s.io/kube-scheduler@sha256:1", "registry.k8s.io/kube-scheduler@sha256:2")
    found = verdict(kube, cluster)
    assert found.kind is VerdictKind.PENDING
    assert found.details == (f"{IMAGE} is sha256:1 on controller-1; sha256:2 on controller-2",)


@pytest.mark.parametrize("more", [{"applied": False}, {"images": False}])
def test_what_the_run_did_not_apply_may_differ(kube: FakeKube, cluster: Cluster, more: dict[str, bool]) -> None:
    """Nodes have had these for long, of a release that doesn't change, or behind a rollback: it would fail for that."""
    two_pods(kube, "registry.k8s.io/kube-scheduler@sha256:1", "registry.k8s.io/kube-scheduler@sha256:2")
    assert verdict(kube, cluster, SCHEDULER, IMAGE, None, brought=None, **more).kind is VerdictKind.HOLDS


def test_node_that_is_no_machine_reports_no_image(kube: FakeKube, cluster: Cluster) -> None:
    """A virtual kubelet's pods are Ready without: what the others report counts."""
    two_pods(kube, "registry.k8s.io/kube-scheduler@sha256:1", "")
    assert verdict(kube, cluster).kind is VerdictKind.HOLDS


def test_tags_of_an_organisations_own_builds() -> None:
    """They number its builds, and not the program: its log says nothing against them."""
    own = ("corp/coredns:2026.11.3", "corp/coredns:3.2.0", "corp/kube-proxy:1.0.7")
    assert [image_version(image.rpartition("/")[2].partition(":")[0], image) for image in own] == [None] * 3
    assert image_version("coredns", "coredns/coredns:1.14.2") == KubernetesVersion(1, 14, 2)
    assert image_version("kube-proxy", "eks/kube-proxy:v1.37.1-eksbuild.1") == KubernetesVersion(1, 37, 1)


def test_third_node_shows_that_two_digests_are_one_image() -> None:
    """One node has the index's digest, one its architecture's, and the third one both."""
    found = FoundImages()
    for node, digests in (("a", "1"), ("b", "2"), ("c", "12")):
        found.add(IMAGE, {"metadata": {"name": node}}, [f"registry.k8s.io/kube-scheduler@sha256:{x}" for x in digests])
    assert list(found.differing()) == []


def test_two_names_of_one_content(kube: FakeKube, cluster: Cluster) -> None:
    """One node reports the digest of the index, and one that of its architecture, which the first lists as well."""
    index, own = (f"registry.k8s.io/kube-scheduler@sha256:{digest}" for digest in ("1", "2"))
    two_pods(kube, index, own, node_1=[index, own, IMAGE], node_2=[own, IMAGE])
    assert verdict(kube, cluster).kind is VerdictKind.HOLDS


@pytest.mark.parametrize("prefix", ["registry.k8s.io/kube-scheduler@sha256:", "sha256:"])
def test_nodes_of_two_architectures(kube: FakeKube, cluster: Cluster, prefix: str) -> None:
    """Each has its own manifest of the index, and an ID of its own: that these differ is no other content."""
    two_pods(kube, f"{prefix}1", f"{prefix}2", architectures=("amd64", "arm64"))
    assert verdict(kube, cluster).kind is VerdictKind.HOLDS


@pytest.mark.parametrize("imported", ["import-2026-11-23@sha256:9", "docker-pullable://import@sha256:9", "sha256:9"])
def test_imported_images_say_nothing_of_a_registry(kube: FakeKube, cluster: Cluster, imported: str) -> None:
    """Imported from a bundle on one node, and pulled on another: names of different places can't be compared."""
    two_pods(kube, "registry.k8s.io/kube-scheduler@sha256:1", imported)
    assert verdict(kube, cluster).kind is VerdictKind.HOLDS


def test_kubelet_that_does_not_say_what_runs(kube: FakeKube, cluster: Cluster) -> None:
    """Unknown is not healthy."""
    two_pods(kube, "", "")
    assert verdict(kube, cluster).kind is VerdictKind.UNKNOWN


@pytest.mark.parametrize(
    ("name", "image", "line", "says"),
    [
        (
            SCHEDULER,
            IMAGE,
            'I1127 21:08:42.969955   18969 server.go:178] "Starting Kubernetes Scheduler" version="{}"',
            "",
        ),
        (
            SCHEDULER,
            IMAGE,
            '{{"ts":1795813736896.1,"msg":"Starting Kubernetes Scheduler","v":0,"version":"{}"}}',
            "",
        ),
        (
            "kube-controller-manager",
            "registry.k8s.io/kube-controller-manager:v1.37.1",
            'E1127 1 options.go:205] The manifest is empty\nI1127 1 controllermanager.go:204] "Starting" version="{}"',
            "",
        ),
        (PROXY, "example.com/kube-proxy:v1.37.1-vendor.2", 'I1127 1 server.go:652] "Version info" version="{}"', ""),
        (DNS, "registry.k8s.io/coredns/coredns:v1.37.1", ".:53\nCoreDNS-{}\nlinux/amd64, go1.26.8, ", "v"),
    ],
)
def test_components_are_asked_for_their_versions(
    kube: FakeKube, cluster: Cluster, name: str, image: str, line: str, says: str
) -> None:
    """The first lines of each log, as the real programs write them: an older program under the new name is found."""
    (add_daemonset if name == PROXY else add_deployment)(kube, name)
    pod = add_pod(kube, name, running(name, image=image), daemon=name == PROXY)
    log(kube, pod, name, line.format("v1.36.3".removeprefix(says)))
    found = verdict(kube, cluster, name, image)
    assert found.kind is VerdictKind.PENDING
    assert f"container {name} of pod {pod} reports version v1.36.3, but its image {image}" in found.reason
    log(kube, pod, name, line.format("v1.37.1".removeprefix(says)))
    assert verdict(kube, cluster, name, image).kind is VerdictKind.HOLDS


def test_each_start_is_asked_once(kube: FakeKube, cluster: Cluster) -> None:
    """Gates are polled each second; what an instance has said doesn't change."""
    two_pods(kube, "x@sha256:1", "x@sha256:1")
    memory = GateMemory()
    for pod in ("kube-scheduler-1-controller-1", "kube-scheduler-1-controller-2"):
        log(kube, pod, SCHEDULER, '"Starting Kubernetes Scheduler" version="v1.37.1"')
    assert verdict(kube, cluster, memory=memory).kind is VerdictKind.HOLDS
    kube.raw_answers.clear()
    assert verdict(kube, cluster, memory=memory).kind is VerdictKind.HOLDS
    assert list(memory.versions.said.values()) == [KubernetesVersion(1, 37, 1)] * 2


@pytest.mark.parametrize("text", ["", "rotated", 'x "Starting Kubernetes Scheduler" version="v0.0.0-master+$Format"'])
def test_log_without_a_version(kube: FakeKube, cluster: Cluster, text: str) -> None:
    """Its beginning was rotated away, or the build has none: the image alone is judged."""
    two_pods(kube, "x@sha256:1", "x@sha256:1")
    log(kube, "kube-scheduler-1-controller-1", SCHEDULER, text)
    assert started_version(SCHEDULER, text) is None
    assert verdict(kube, cluster).kind is VerdictKind.HOLDS


@pytest.mark.parametrize(
    ("error", "first"), [(ApiError("forbidden"), VerdictKind.HOLDS), (ApiUnavailable("away"), VerdictKind.UNKNOWN)]
)
def test_log_that_can_not_be_read(kube: FakeKube, cluster: Cluster, error: ApiError, first: VerdictKind) -> None:
    """Neither rights on `pods/log` are required nor a way to kubelets; an API that is away is asked again."""
    two_pods(kube, "x@sha256:1", "x@sha256:1")
    memory = GateMemory()
    log(kube, "kube-scheduler-1-controller-1", SCHEDULER, error)
    assert verdict(kube, cluster, memory=memory).kind is first
    assert verdict(kube, cluster, memory=memory).kind is VerdictKind.HOLDS


@pytest.mark.parametrize("image", ["registry.k8s.io/kube-scheduler@sha256:1", "corp/kube-scheduler:2026.11.3"])
def test_a_new_image_without_a_version_is_asked_whether_it_is_of_the_target(
    kube: FakeKube, cluster: Cluster, image: str
) -> None:
    """Somebody has pinned the digest of another release: the run doesn't succeed with that."""
    two_pods(kube, "x@sha256:1", "x@sha256:1", image=image)
    target = KubernetesVersion(1, 37, 1)
    for said, kind in (("v1.36.9", VerdictKind.PENDING), ("v1.37.1", VerdictKind.HOLDS)):
        log(kube, "kube-scheduler-1-controller-1", SCHEDULER, f'"Starting Kubernetes Scheduler" version="{said}"')
        found = verdict(kube, cluster, image=image, brought=target)
        assert found.kind is kind
        assert kind is VerdictKind.HOLDS or f"must have version {target}" in found.reason


def test_a_new_image_of_coredns_has_a_version_of_its_own(kube: FakeKube, cluster: Cluster) -> None:
    """It is none of Kubernetes."""
    add_deployment(kube, DNS)
    pod = add_pod(kube, DNS, running(DNS, image="corp/coredns@sha256:1"))
    log(kube, pod, DNS, "CoreDNS-1.13.1")
    found = verdict(kube, cluster, DNS, "corp/coredns@sha256:1", brought=KubernetesVersion(1, 37, 1))
    assert found.kind is VerdictKind.HOLDS


def test_an_image_by_digest_is_not_asked(kube: FakeKube, cluster: Cluster) -> None:
    """Its digest says what runs, and no version is known to compare with."""
    by_digest = "registry.k8s.io/kube-scheduler@sha256:1"
    two_pods(kube, "x@sha256:1", "x@sha256:1", image=by_digest)
    log(kube, "kube-scheduler-1-controller-1", SCHEDULER, '"Starting Kubernetes Scheduler" version="v1.36.3"')
    assert verdict(kube, cluster, image=by_digest).kind is VerdictKind.HOLDS
