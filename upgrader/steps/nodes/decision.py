"""What is to be done with a node, by its mark, its kubelet's version and what it was configured with. Pure.

Why an interruption loses nothing: a node's mark is written before the first change of each phase, and every phase can
be repeated. So the mark names a phase that was reached, and whatever that phase left undone is done by doing it again.
A mark is removed, with the cordon, in one request and only when the node is Ready: a node without one is either as it
was before, or upgraded, and its version says which; where that is the same, the annotation that is written in the
same request says what it was configured with. Where the node has to get back into a load balancer, that request leaves
the mark `attach`: the node is what its version says, and only the answer is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

from upgrader.model.node_mark import NodeMark
from upgrader.model.version import KubernetesVersion

__all__ = ["Todo", "backward", "batches", "forward"]

T = TypeVar("T")

Todo = Literal["nothing", "detach", "drain", "swap", "put-back", "release", "attach"]
"""`detach`, `drain` and `swap`: go on from there; the first is nothing where no load balancer is to know. `release`:
nothing of it was changed: uncordon it. `attach`: wait for the load balancer.
"""


def forward(
    mark: NodeMark | None,
    version: KubernetesVersion,
    target: KubernetesVersion,
    *,
    again: bool = False,
    configured: bool = True,
) -> Todo:
    """On the way to `target`; `again`: also where an earlier run has failed, and could not put the node back.
    `configured`: whether it is known to have the configuration that is wanted. A newer node is left alone, as the
    programs of `target` would be older than its own.
    """
    done = version > target or (version == target and configured)
    if mark is None:
        return "nothing" if done else "detach"
    if mark.phase == "attach":
        return "attach" if done else "detach"
    if mark.phase == "back":
        return "swap" if again else "put-back"
    return mark.phase


def backward(
    mark: NodeMark | None, version: KubernetesVersion, before: KubernetesVersion, *, reconfigured: bool = False
) -> Todo:
    """During the rollback to the version `before`; `reconfigured`: its configuration is the new one, and wasn't before.

    One that is older, and has no mark, has gone back already: to what it had before an earlier, interrupted run.
    """
    done = version <= before and not reconfigured
    if mark is None:
        return "nothing" if done else "detach"
    if mark.phase == "attach":
        return "attach" if done else "detach"
    if mark.phase == "swap" or mark.phase == "back":
        return "put-back"
    # These come first both ways: forward, the node still has its old version.
    return "release" if version == before and not reconfigured else mark.phase


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in their order, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
