"""The schema of the section `nodes` of `upgrader.yaml`. Its descriptions are the text of the reference manual."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from upgrader.config.kubelet_fields import KubeletFields
from upgrader.config.node_sources_yaml import ContainerRuntimeSection, NodeSourceSection
from upgrader.config.section import ApprovalSection, Duration, NodeShare, Section, Text
from upgrader.model.node_settings import (
    CONTROLLERS,
    WORKERS,
    DetachPolicy,
    DrainPolicy,
    NodePool,
    NodesSettings,
    OnBlocked,
)
from upgrader.model.surge import Surge

__all__ = ["DetachSection", "DrainSection", "LeftAloneSection", "NodePoolSection", "NodesSection", "SurgeSection"]

_POOL = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def _pool(text: object) -> str:
    if not isinstance(text, str) or not _POOL.fullmatch(text):
        raise ValueError(f"{text!r} is not a pool's name: at most 40 lower-case letters, digits and '-'")
    return text


PoolName = Annotated[str, BeforeValidator(_pool)]


class DrainSection(Section):
    """How nodes are drained: by the eviction API, which honours PodDisruptionBudgets."""

    deadline: Duration = Field(
        default=DrainPolicy.deadline_seconds,
        description="How long the drain of a node may take, until all evicted pods have ended.",
        examples=["5m"],
    )
    on_blocked: OnBlocked = Field(
        default=DrainPolicy.on_blocked,
        description="What happens when the drain takes longer, or when a pod has no controller that would recreate it. "
        "`fail`: the node is uncordoned, and counts as failed. `skip-node`: the node is uncordoned, and doesn't count "
        "as failed. `force`: the node's pods are deleted despite PodDisruptionBudgets; the deadline starts again.",
    )


class DetachSection(Section):
    """How nodes of one pool leave their load balancer before they are drained, and get back in the end."""

    grace_period: Duration = Field(
        default=DetachPolicy.grace_seconds,
        description="The time that clients get to close their connections. It starts when the agent reports that the "
        "node is out of the load balancer; the node is then cordoned and drained.",
        examples=["30s"],
    )
    deadline: Duration = Field(
        default=DetachPolicy.deadline_seconds,
        description="How long the agent may take to report that the node is out of the load balancer, and later that "
        "it is back. After that, the node counts as failed.",
        examples=["5m"],
    )


class DetachAllSection(DetachSection):
    """How nodes leave their [load balancer](../nodes.md#out-of-the-load-balancer-and-back) while they are upgraded."""

    pools: list[Text] | None = Field(
        default=None,
        description="The pools whose nodes are behind a load balancer, such as `controllers`. Empty: all pools.",
    )


class ApprovalOfPoolsSection(ApprovalSection):
    """A person's [approval](../observability.md#approvals) before the nodes of a pool are changed."""

    pools: list[Text] | None = Field(
        default=None, description="The pools that wait for an approval, such as `controllers`. Empty: all pools."
    )


class SurgeSection(Section):
    """Extra nodes that a pool has while it is upgraded, so that a full pool can be drained."""

    nodes: int = Field(ge=1, description="The number of surge nodes.", examples=[1])
    add: Text = Field(
        description="The playbook that adds the surge nodes, relative to the folder of `upgrader.yaml`. It gets their "
        "number and their labels as variables."
    )
    remove: Text = Field(description="The playbook that removes all surge nodes, after they are drained.")
    deadline: Duration = Field(
        default=Surge.deadline_seconds,
        description="How long it may take until the surge nodes are Ready, and until they are removed.",
        examples=["15m"],
    )


class NodePoolSection(Section):
    """A pool of workers, which are upgraded in one step, after the pools before it."""

    name: PoolName = Field(
        description="The pool's name; its step is called `nodes-NAME`. The pool `workers` has all other workers."
    )
    selector: dict[str, str] = Field(
        default={}, description="The labels of the pool's nodes. Required, except for `workers`, which has no selector."
    )
    max_unavailable: NodeShare = Field(
        default=NodePool.max_unavailable,
        description="How many of the pool's nodes are upgraded at the same time: a number, or a percentage, which is "
        "rounded down; at least one.",
    )
    max_failed: int = Field(
        default=NodePool.max_failed,
        ge=0,
        description="How many of the pool's nodes may fail. The old version of a failed node is restored, and the run "
        "continues.",
    )
    drain: DrainSection | None = Field(default=None, description="Replaces `nodes.drain` for this pool.")
    detach: DetachSection | None = Field(
        default=None, description="Replaces `nodes.detach` for this pool, even if `nodes.detach.pools` doesn't list it."
    )
    approval: ApprovalSection | None = Field(
        default=None,
        description="Replaces `nodes.approval` for this pool, even if `nodes.approval.pools` doesn't list it.",
    )
    surge: SurgeSection | None = Field(
        default=None,
        description="Extra nodes that the pool has while it is upgraded. Empty: none.",
    )

    @model_validator(mode="after")
    def _has_a_selector(self) -> NodePoolSection:
        if self.name == CONTROLLERS:
            raise ValueError(
                "the pool 'controllers' can't be configured: its nodes are upgraded one at a time, and none may fail"
            )
        if (self.name == WORKERS) == bool(self.selector):
            needs = "has no key" if self.name == WORKERS else "needs a key"
            raise ValueError(f"pool '{self.name}' {needs} 'selector'")
        return self


class LeftAloneSection(Section):
    """Nodes that upgrader [leaves alone](../nodes.md#leave-nodes-alone), by their labels or by their names."""

    selector: dict[str, str] = Field(default={}, description="The labels that the nodes have.")
    nodes: list[Text] = Field(default=[], description="The names of the nodes, instead of labels.")

    @model_validator(mode="after")
    def _has_one_of_them(self) -> LeftAloneSection:
        if bool(self.selector) == bool(self.nodes):
            raise ValueError("nodes that are left alone need either 'selector' or 'nodes'")
        return self


class NodesSection(Section):
    """How nodes are upgraded, after the releases: the controllers first, one at a time, then each pool of workers."""

    source: NodeSourceSection
    drain: DrainSection = DrainSection()
    detach: DetachAllSection | None = None
    approval: ApprovalOfPoolsSection | None = None
    ready_deadline: Duration = Field(
        default=NodesSettings.ready_seconds,
        description="How long a node may take to be Ready with its new kubelet before its old version is restored.",
        examples=["5m"],
    )
    kubelet_configuration: KubeletFields = Field(
        default={},
        description="Fields of the KubeletConfiguration, as in its file. They are merged into each node's file, in "
        "which the other fields stay, and into the ConfigMap from which kubeadm configures nodes that "
        "join.",
    )
    container_runtime: ContainerRuntimeSection | None = None
    pools: list[NodePoolSection] = Field(
        default=[],
        description="Pools of workers, in the order in which they are upgraded. A worker is in the first one whose "
        "labels it has; all others are in the pool `workers`, which comes last.",
    )
    left_alone: list[LeftAloneSection] = Field(
        default=[],
        description="Nodes that no run upgrades, such as Windows nodes, or nodes that an autoscaler replaces. "
        "Controllers, and nodes with the labels of a pool, are always upgraded.",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> NodesSection:
        names = [pool.name for pool in self.pools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two pools are named '{name}'")
        known = (CONTROLLERS, *names, *(() if WORKERS in names else (WORKERS,)))
        for key, section in (("detach", self.detach), ("approval", self.approval)):
            for name in (section and section.pools) or ():
                if name not in known:
                    raise ValueError(f"`{key}.pools`: there is no pool '{name}', only {', '.join(known)}")
        return self
