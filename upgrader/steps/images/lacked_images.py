"""The images of a plan that nodes lack, and have once they were pulled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upgrader.errors import ApiError, StepFailed
from upgrader.model.first_few import first_few
from upgrader.model.found_images import FoundImages
from upgrader.ports import Kind, Kube
from upgrader.steps.images.image_pulls import ImagePulls
from upgrader.steps.images.node_images import NodeNeeds, needs_of, not_ready
from upgrader.steps.images.planned_images import PlannedPods
from upgrader.steps.images.puller_pod import ImageStatus, PullerPod, new_name

__all__ = ["PulledImages", "compare", "lacking_nodes", "pull"]

_NODES = Kind("v1", "nodes", namespaced=False)
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_SECRETS = Kind("v1", "secrets")
_SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts")

_DIFFERENT = (
    "Pin the image by its digest in the chart's values; or remove the wrong one from its node (crictl rmi IMAGE, once "
    "no pod uses it), and run the same command again."
)


@dataclass
class PulledImages:
    """What nodes have pulled in this process, for which pods. Several threads may add to it, one after the other."""

    _nodes: dict[tuple[str, str], list[NodeNeeds]] = field(default_factory=dict)
    """(Node, its UID) → what it had lacked."""
    _told: dict[tuple[str, str], list[NodeNeeds]] = field(default_factory=dict)
    """(Image, its ID) → the nodes that have it: of a thousand nodes, it is kept once."""

    def add(self, needs: NodeNeeds, told: Collection[ImageStatus]) -> None:
        """A node has what it needed."""
        self._nodes.setdefault(_identity(needs), []).append(needs)
        for status in told:
            self._told.setdefault((status.image, status.image_id), []).append(needs)

    def tell(self, found: FoundImages) -> None:
        """Add the digests that the kubelets told."""
        for (image, image_id), nodes in self._told.items():
            for needs in nodes:
                found.add(image, needs.node, (image_id,))

    def left_of(self, needs: NodeNeeds) -> NodeNeeds:
        """The same without what was pulled: a kubelet may not list it, as it lists 50 images, or report it later."""
        earlier = (pods for known in self._nodes.get(_identity(needs), ()) for pods in known.pods)
        has = {(pods.workload, image.name) for pods in earlier for image in pods.images}
        left = (
            replace(each, images=tuple(image for image in each.images if (each.workload, image.name) not in has))
            for each in needs.pods
        )
        return NodeNeeds(needs.node, tuple(each for each in left if each.images))


def lacking_nodes(
    kube: Kube, planned: Sequence[PlannedPods], found: FoundImages, note: Callable[[str], None]
) -> list[NodeNeeds]:
    """The nodes that lack something and can pull it now. What nodes list is added to `found`. Raises ApiError."""
    possible = [known for pods in planned if (known := _possible(kube, pods, note)) is not None]
    lacking, away = [], []
    for node in kube.each(_NODES):
        needs = needs_of(node, possible, found)
        if needs.pods and not_ready(node):
            away.append(needs.name)
        elif needs.pods:
            lacking.append(needs)
    if away:
        note(f"not Ready, so images were not pulled: {first_few(away)}")
    return lacking


def pull(pulls: ImagePulls, lacking: Sequence[NodeNeeds], at_once: int, pulled: PulledImages) -> None:
    """Have these nodes pull what they lack, and add it to `pulled`. Raises StepFailed where one can't."""
    nodes = {needs.name: needs for needs in lacking}
    pods = {needs.name: tuple(_pods_for(needs)) for needs in lacking}
    pulls.run(pods, at_once, lambda name, told: pulled.add(nodes[name], told))


def compare(found: FoundImages, note: Callable[[str], None]) -> None:
    """Note each image's digest. Raises StepFailed where nodes have different images with one name."""
    differing = tuple(found.differing())
    if differing:
        raise StepFailed("nodes have different images with the same name: " + "\n".join(differing), remedy=_DIFFERENT)
    for line in found.known():
        note(line)


def _possible(kube: Kube, pods: PlannedPods, note: Callable[[str], None]) -> PlannedPods | None:
    """The same as it can be asked for now; None where its own release must come first."""
    if _absent(kube, _NAMESPACES, pods.namespace):
        note(f"{pods.workload}: its images can't be pulled before its namespace exists")
        return None
    for name in pods.own_secrets:
        if _absent(kube, _SECRETS, name, pods.namespace):
            note(f"{pods.workload}: its images can't be pulled before its release creates Secret {name}")
            return None
    if _absent(kube, _SERVICE_ACCOUNTS, pods.service_account, pods.namespace):
        return replace(pods, service_account="default")  # its release brings it
    return pods


def _absent(kube: Kube, kind: Kind, name: str, namespace: str = "") -> bool:
    """Whether there is no such object; what may not be read is taken to be there, as it mostly is."""
    try:
        return kube.get(kind, name, namespace) is None
    except ApiError as error:
        if error.status != 403:
            raise
        return False


def _pods_for(needs: NodeNeeds) -> Iterator[PullerPod]:
    """One pod for all workloads that pull with the same credentials, of the same runtime."""
    groups: dict[tuple[str, str, tuple[str, ...], str], list[PlannedPods]] = {}
    for pods in needs.pods:
        key = pods.namespace, pods.service_account, pods.pull_secrets, pods.runtime_class
        groups.setdefault(key, []).append(pods)
    for (namespace, account, pull_secrets, runtime_class), several in groups.items():
        yield PullerPod(
            new_name(),
            needs.name,
            namespace,
            account,
            pull_secrets,
            any(pods.host_network for pods in several),
            runtime_class,
            tuple(dict.fromkeys(image for pods in several for image in pods.images)),
        )


def _identity(needs: NodeNeeds) -> tuple[str, str]:
    """A machine that was replaced has its name, and nothing of what the other one pulled."""
    meta: Mapping[str, str] = needs.node["metadata"]
    return meta["name"], meta.get("uid", "")
