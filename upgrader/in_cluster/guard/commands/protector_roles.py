"""What PodProtectors need, joined: the webhook of each cell, the generator, the aggregator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.in_cluster.guard.commands.flags import Settings
from upgrader.in_cluster.guard.roles.admission_server import Decide
from upgrader.in_cluster.guard.roles.aggregator import Aggregator
from upgrader.in_cluster.guard.roles.disruption_budgets import DisruptionBudgets
from upgrader.in_cluster.guard.roles.generator import Generator
from upgrader.in_cluster.guard.roles.protector_cache import NewestProtectors, ProtectorCache
from upgrader.in_cluster.guard.roles.protector_webhook import CellWebhook, ProtectorWriter, unknown_cell
from upgrader.in_cluster.guard.roles.silent_cells import SilentCells
from upgrader.in_cluster.guard.roles.young_pods import YoungPods
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import by_kubeconfig
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics

__all__ = ["ProtectorParts", "protector_parts"]

_SHARE = 0.8
"""Of the time that a request may take."""


@dataclass
class ProtectorParts:
    """What answers, by path, and of that the webhooks of guard's own cluster; what has to be known before anything is
    ready, by kind; what runs.
    """

    paths: dict[str, Decide] = field(default_factory=dict)
    own: dict[str, CellWebhook] = field(default_factory=dict)
    informers: list[Sequence[Informer[Any]]] = field(default_factory=list)
    running: list[Awaitable[None]] = field(default_factory=list)


async def protector_parts(
    api: Api,
    settings: Settings,
    lead: Callable[[str], Leadership],
    metrics: Metrics,
    clients: AsyncExitStack,
    disruptions: DisruptionBudgets,
) -> ProtectorParts:
    """What the roles and flags ask for; nothing if that is nothing. `lead` makes the election for a Lease.
    `disruptions`: those of guard's own cluster.

    `clients` closes what is opened here. Raises UsageError for a kubeconfig that can't be used.
    """
    parts, own = ProtectorParts(), settings.protector
    answers = "webhook" in settings.roles and bool(own.cells)
    if not answers and not {"generator", "aggregator"} & set(settings.roles):
        return parts
    counted = ProtectorMetrics(metrics)

    async def api_of(kubeconfig: Path | None) -> Api:
        return api if kubeconfig is None else await clients.enter_async_context(Api(by_kubeconfig(kubeconfig)))

    core = await api_of(own.core)
    cache = ProtectorCache(core, own.namespaces, own.defaults)
    counted.unreadable.set_function(lambda: cache.unreadable_count)
    parts.informers.append(cache.informers)
    if answers:
        kept = NewestProtectors(cache), YoungPods(cache), SilentCells(cache)
        writer = ProtectorWriter(core, cache, counted, *kept)
        seconds = settings.timeout_seconds * _SHARE
        for cell, kubeconfig in own.cells.items():
            its, is_own = await api_of(kubeconfig), kubeconfig is None
            same = disruptions if is_own else None
            webhook = CellWebhook(cell, its, cache, writer, counted, seconds, is_own=is_own, disruptions=same)
            parts.paths[f"{own.prefix}/{cell}"] = webhook
            if is_own:
                parts.own[f"{own.prefix}/{cell}"] = webhook
        parts.paths[f"{own.prefix}/{{cell}}"] = unknown_cell
    if "generator" in settings.roles:
        generator = Generator(core, cache, own.namespaces, own.protected, lead("guard-generator"), counted)
        parts.informers.append(generator.deployments)
        parts.running.append(generator.run())
    if "aggregator" in settings.roles:
        election = lead("guard-aggregator")
        aggregator = Aggregator(core, api, cache, own.cell, own.namespaces, election, counted, labels=own.pod_labels)
        parts.running.append(aggregator.run())
    return parts
