"""Whether a workload's Ready pods run the images that were planned: by their specs, and by what their kubelets report.

A rollout can be complete with other images: an admission webhook or a person has changed them, or a tag was moved, so
that one node has other content under the name. A digest in a spec needs no such proof: runtimes look images up by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from upgrader.gates.kubernetes_kinds import NODES
from upgrader.gates.workload_reading import Reading
from upgrader.model.found_images import FoundImages, listed_images
from upgrader.model.image_name import digest_in, full_name
from upgrader.model.outcome import Verdict, pending, unknown
from upgrader.model.workload import Container, Pod
from upgrader.ports import Kube, KubeObject

__all__ = ["judge_images"]

_SINGLE_READS = 5
"""From how many nodes on one list is cheaper than a read of each."""
_AT_ONCE = 500


def judge_images(kube: Kube, reading: Reading, planned: Mapping[str, str], *, compare: bool = True) -> Verdict | None:
    """What contradicts the `planned` images, by containers' names; None for nothing. Raises ApiError.

    `compare`: what different pods run, too; of what was not changed, they may run different images since long ago.
    """
    ref = reading.workload.ref
    running = [(pod, item) for pod in reading.newest if pod.ready for item in pod.containers if item.name in planned]
    for pod, item in running:
        yaml = f"kubectl -n {pod.namespace} get pod {pod.name} -o yaml"
        if _is_another(item.spec_image, planned[item.name]):
            return pending(
                f"{ref}: container {item.name} of pod {pod.name} runs {item.spec_image}, not {planned[item.name]}",
                remedy=f"Find out what changed it, such as an admission webhook: {yaml}",
            )
    # A node that is no machine, as of a virtual kubelet, reports none.
    silent = [(pod, item) for pod, item in running if not item.init]
    if silent and not any(item.image_id for _, item in silent):
        pod, item = silent[0]
        return unknown(
            f"{ref}: the kubelet of {pod.node} does not report which image container {item.name} of pod "
            f"{pod.name} runs",
            remedy="Check its status.containerStatuses[].imageID: "
            f"kubectl -n {pod.namespace} get pod {pod.name} -o yaml",
        )
    differing = tuple(_differing(kube, running)) if compare else ()
    if not differing:
        return None
    return pending(
        f"{ref}: its pods run different images with the same name",
        *differing,
        remedy="Pin the image by its digest in the chart's values; or remove the wrong one from its node (crictl rmi "
        "IMAGE, once no pod uses it).",
    )


def _is_another(image: str, planned: str) -> bool:
    """Whether a pod's image has another tag or digest. A webhook may name a mirror instead, or add a digest."""
    if "@" in planned:
        return digest_in(image) != digest_in(planned)
    name, _, digest = image.partition("@")
    only_a_digest = bool(digest) and ":" not in name.rpartition("/")[2]  # what the tag was at admission
    return not only_a_digest and _tag(image) != _tag(planned)


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2] or "latest"


def _differing(kube: Kube, running: Collection[tuple[Pod, Container]]) -> Iterator[str]:
    """A line for each image of which two nodes run different content. Nodes are read only where names differ."""
    by_image: dict[str, list[tuple[str, str]]] = {}
    for pod, item in running:
        # As Docker has it: docker-pullable://REPOSITORY@sha256:…
        image_id = item.image_id.rpartition("://")[2]
        if image_id and "@" not in item.spec_image:
            by_image.setdefault(item.spec_image, []).append((pod.node, image_id))
    unlike = {image: found for image, found in by_image.items() if len({image_id for _, image_id in found}) > 1}
    if not unlike:
        return
    nodes = _nodes(kube, {node for found in unlike.values() for node, _ in found})
    content = FoundImages()
    for image, found in unlike.items():
        for name, image_id in found:
            # One image may have several digests, of which the status has one: the index's, and its architecture's.
            listed = listed_images(nodes[name]) if name in nodes else {}
            names = listed.get(full_name(image_id), ()) if digest_in(image_id) else ()
            content.add(image, nodes.get(name) or {"metadata": {"name": name}}, {image_id, *names})
    yield from content.differing()


def _nodes(kube: Kube, names: Collection[str]) -> dict[str, KubeObject]:
    if len(names) <= _SINGLE_READS:
        return {name: node for name in names if (node := kube.get(NODES, name)) is not None}
    return {
        node["metadata"]["name"]: node
        for node in kube.each(NODES, at_once=_AT_ONCE)
        if node["metadata"]["name"] in names
    }
