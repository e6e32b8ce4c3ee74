"""What a journal may have undone: only releases and steps that `upgrader.yaml` names.

A journal found in the cluster or on a controller was written by whoever could write there. It says what to go back to;
what is acted on, and which file is run here, is the cluster folder's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from upgrader.engine.state.run_state import StepState
from upgrader.errors import UsageError
from upgrader.model.cluster import Cluster
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.node_settings import CONTROLLERS, NodePool, NodesSettings
from upgrader.model.settings import BUILT_IN_CHARTS, PlaybookSettings, ReleaseSettings, StepSettings

__all__ = ["check_named", "check_named_members", "check_named_nodes", "check_named_surge"]

_NEVER_UNINSTALLED = BUILT_IN_CHARTS
"""A run upgrades them, with whatever chart; `adopt` installs them, and only `adopt --undo` removes them."""
_FINGERPRINT = re.compile(r"[0-9a-f]*")


def check_named(step: StepState, pipeline: Iterable[StepSettings]) -> StepSettings:
    """The step of `upgrader.yaml` that a journal's step is. Raises UsageError where there is none, or another one."""
    point = step.restore_point
    item = next((each for each in pipeline if each.name == step.name), None)
    assert point is not None, "asked of a step with something to undo"
    if isinstance(item, PlaybookSettings) and not point.release:
        return item
    if not isinstance(item, ReleaseSettings) or (point.release, point.namespace) != (item.name, item.namespace):
        what = f"release {point.release!r} in namespace {point.namespace!r}" if point.release else "a playbook"
        raise UsageError(
            f"the run's journal restores {what} for step {step.name!r}, and upgrader.yaml has no such step",
            remedy="A journal is only followed where upgrader.yaml names the same. If you know this run, name the "
            f"step in `pipeline` again, and repeat this; or restore it yourself{_by_hand(point.release)}.",
        )
    if point.revision is None and item.name in _NEVER_UNINSTALLED:
        raise UsageError(
            f"the run's journal says that {item.name} was not installed before, so that undoing it would remove "
            "a part of the control plane: no journal is followed in that",
            remedy=f"Check what was there before: helm history {item.name} -n {item.namespace}; then helm rollback. If "
            "the run really installed it, keep it.",
        )
    return item


def check_named_nodes(step: StepState, nodes: NodesSettings, cluster: Cluster) -> NodePool:
    """The pool of `upgrader.yaml` that a journal's step is. Raises UsageError where there is none, or where the journal
    names a node that isn't the inventory's.
    """
    point = step.restore_point
    assert point is not None, "asked of a step with something to undo"
    pool = next((item for item in nodes.pools if item.step == step.name), None)
    if pool is None:
        raise UsageError(
            f"the run's journal restores nodes in step {step.name!r}, and upgrader.yaml has no such pool",
            remedy="Restore `nodes.pools` in upgrader.yaml, and repeat this.",
        )
    hosts = cluster.controllers if pool.name == CONTROLLERS else cluster.workers
    strangers = [item.node for item in point.nodes if item.node not in {host.name for host in hosts}]
    if strangers:
        raise UsageError(
            f"the run's journal restores {', '.join(strangers)} in step {step.name!r}, and the inventory lacks them",
            remedy="Add these nodes to the inventory, in the group they belong to, and repeat this.",
        )
    if not _FINGERPRINT.fullmatch(point.configuration):
        raise UsageError(  # Ansible would run what is written there
            f"the run's journal names a configuration in step {step.name!r} that is no fingerprint",
            remedy="No run wrote this: find out who changed the journal. Restore the nodes with "
            "playbooks/restore-node.yml.",
        )
    return pool


def check_named_surge(step: StepState, nodes: NodesSettings | None) -> NodePool:
    """The pool of `upgrader.yaml` whose surge nodes a journal's step removes. Raises UsageError where there is none."""
    pools = nodes.pools if nodes is not None else ()
    pool = next((item for item in pools if item.surge is not None and item.surge_steps[0] == step.name), None)
    if pool is None:
        raise UsageError(
            f"the run's journal has surge nodes removed in step {step.name!r}, and upgrader.yaml has no pool with such "
            "a `surge`",
            remedy="Restore `surge` of that pool in upgrader.yaml, and repeat this.",
        )
    return pool


def check_named_members(step: StepState, cluster: Cluster, settings: EtcdSettings | None) -> EtcdSettings:
    """The section `etcd` of `upgrader.yaml`. Raises UsageError where there is none, or where the journal names what is
    no controller of the inventory. Which image comes back isn't the journal's to say: each controller keeps it.
    """
    point = step.restore_point
    assert point is not None, "asked of a step with something to undo"
    if settings is None:
        raise UsageError(
            "the run's journal restores the image of etcd, and upgrader.yaml has no section `etcd`",
            remedy="Restore the section, and repeat this.",
        )
    strangers = [item.node for item in point.etcd if item.node not in {host.name for host in cluster.controllers}]
    if strangers:
        raise UsageError(
            f"the run's journal restores etcd on {', '.join(strangers)}, and the inventory lacks them",
            remedy="Add them to the group `controllers` of the inventory, and repeat this.",
        )
    return settings


def _by_hand(release: str) -> str:
    return f" (helm history {release})" if release else ""
