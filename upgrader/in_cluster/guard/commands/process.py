"""The process: what its roles need, joined, from the start to a signal."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from upgrader.in_cluster.guard.commands.flags import Settings
from upgrader.in_cluster.guard.commands.ingress_role import ingress_role
from upgrader.in_cluster.guard.commands.protector_roles import protector_parts
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles import no_downscale, prepare_downscale, zone_budgets
from upgrader.in_cluster.guard.roles.admission_server import Decide, admission_app
from upgrader.in_cluster.guard.roles.disruption_budgets import DisruptionBudgets
from upgrader.in_cluster.guard.roles.downscale_history import DownscaleHistory
from upgrader.in_cluster.guard.roles.downscales import Downscales
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks, leases_of_groups
from upgrader.in_cluster.guard.roles.own_webhooks import OwnWebhooks
from upgrader.in_cluster.guard.roles.protector_webhook import CellWebhook
from upgrader.in_cluster.guard.roles.rolling_groups import RollingGroups
from upgrader.in_cluster.guard.roles.rollout import Rollouts
from upgrader.in_cluster.guard.roles.run_lease import RunLease
from upgrader.in_cluster.guard.roles.scaling import Scaling
from upgrader.in_cluster.guard.roles.zone_budgets import ZoneBudgets
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.ca_injection import CONFIGURATIONS, Injection, labels_of
from upgrader.in_cluster.guard.runtime.certificate_keeper import CertificateKeeper, FileKeeper
from upgrader.in_cluster.guard.runtime.certificate_renewal import Wanted
from upgrader.in_cluster.guard.runtime.certificate_secret import CertificateSecret
from upgrader.in_cluster.guard.runtime.connection import Connection
from upgrader.in_cluster.guard.runtime.http_servers import ServedCertificate, listening
from upgrader.in_cluster.guard.runtime.informer import Informer, unlisted, whole
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls
from upgrader.in_cluster.guard.runtime.resource import Object
from upgrader.in_cluster.guard.runtime.status_server import Question, status_app

__all__ = ["serve"]

_DRAIN_SECONDS = 5.0
"""From SIGTERM to the end of the servers: by then, API servers and kube-proxy know that the pod isn't ready."""
_LEASE = "guard-rollout"
_BUDGETS_SHARE = 0.7
"""Share of a webhook's timeout: the rest is for an answer that names the budget that couldn't be written."""


@dataclass
class _Parts:
    """The running tasks, and the conditions of being ready."""

    running: list[Awaitable[None]] = field(default_factory=list)
    questions: dict[str, Question] = field(default_factory=dict)

    def follow(self, informers: Iterable[Informer[Any]]) -> None:
        """Add the caches of one kind, each of a namespace: the process is ready only after their first lists."""
        all_of_a_kind = list(informers)
        for informer in all_of_a_kind:
            self.running.append(informer.run())
            self.questions[f"cache of {informer.name}"] = partial(_not_listed, informer, all_of_a_kind)


def _not_listed(which: Informer[Any], all_of_a_kind: Sequence[Informer[Any]]) -> str:
    return "not listed yet" if which in unlisted(all_of_a_kind) else ""


async def serve(settings: Settings, connection: Connection, namespace: str, stop: asyncio.Event) -> None:
    """Until `stop`; then no longer ready, and after a while the end. `namespace`: where its Secret and Lease are."""
    for each in settings.ignored:
        LOG.warning("a flag of rollout-operator is ignored", extra={"flag": each})
    metrics, parts = Metrics(), _Parts()
    parts.questions["process"] = lambda: "it is ending" if stop.is_set() else ""
    async with Api(connection) as api, AsyncExitStack() as servers:
        tls_port, disruptions = 0, DisruptionBudgets(api)
        budgets = _budgets(api, settings, metrics, parts, disruptions)
        run_lease = RunLease(api) if settings.hold else None
        if run_lease:
            parts.running.append(run_lease.run())
        locks, history = GroupLocks(api, namespace), DownscaleHistory(api, settings.zone_tracker)
        calls = await servers.enter_async_context(PodCalls(settings.pods_timeout_seconds))
        lead, configurations = partial(_leadership, api, namespace), _configurations(api, settings, namespace)
        webhooks = OwnWebhooks(tuple(configurations.values()))
        protector = await protector_parts(api, settings, lead, metrics, servers, disruptions)
        if budgets:
            _ask_each_other(budgets, protector.own, webhooks)
        for of_a_kind in protector.informers:
            parts.follow(of_a_kind)
        parts.running += protector.running
        if "webhook" in settings.roles:
            served = _certificates(api, settings, namespace, metrics, parts, configurations)
            answering: dict[str, Decide] = {no_downscale.PATH: no_downscale.NoDownscale(api, run_lease)}
            answering[prepare_downscale.PATH] = prepare_downscale.PrepareDownscale(
                api,
                locks,
                calls,
                run_lease=run_lease,
                history=history,
                cluster_domain=settings.cluster_domain,
                timeout_seconds=settings.timeout_seconds,
                dry_run=settings.dry_run,
                by_label=partial(webhooks.calls, no_downscale.PATH, unknown=False),
            )
            answering[zone_budgets.VALIDATION_PATH] = zone_budgets.validated
            if budgets:
                answering[zone_budgets.EVICTION_PATH] = budgets.evict
            admission = admission_app(
                answering | protector.paths,
                metrics,
                timeout_seconds=settings.timeout_seconds,
                dry_run=settings.dry_run,
            )
            tls_port = await servers.enter_async_context(listening(admission, settings.tls_port, served.context))
        if "rollout" in settings.roles:
            downscales = Downscales(api, locks, leases_of_groups(api, namespace), calls, settings.cluster_domain)
            scaling = Scaling(api, locks, calls, settings.cluster_domain, history)
            _rollouts(api, settings, namespace, metrics, parts, locks, downscales, scaling, budgets, run_lease)
        if "ingress" in settings.roles:
            ingress = ingress_role(api, settings, namespace, lead, metrics, run_lease)
            for informer in ingress.informers:
                parts.follow([informer])
            parts.running.append(ingress.run())
        port = await servers.enter_async_context(listening(status_app(parts.questions, metrics), settings.port))
        LOG.info("started", extra={"port": port, "tls_port": tls_port, "roles": settings.roles, "namespace": namespace})
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(each)) for each in parts.running]
            await stop.wait()
            LOG.info("ending")
            await asyncio.sleep(_DRAIN_SECONDS if tls_port else 0)
            for task in tasks:
                task.cancel()


async def _awaited(what: Awaitable[None]) -> None:
    await what


def _leadership(api: Api, namespace: str, lease: str) -> Leadership:
    return Leadership(api, namespace, lease, f"{os.environ.get('HOSTNAME') or 'guard'}_{uuid.uuid4()}")


def _budgets(
    api: Api, settings: Settings, metrics: Metrics, parts: _Parts, disruptions: DisruptionBudgets
) -> ZoneBudgets | None:
    if not settings.budget_namespaces or not {"rollout", "webhook"}.intersection(settings.roles):
        return None
    seconds = settings.timeout_seconds * _BUDGETS_SHARE
    budgets = ZoneBudgets(api, settings.budget_namespaces, metrics, seconds, disruptions=disruptions)
    parts.questions["zone-aware budgets"] = budgets.cache.why_not_ready
    parts.running.append(budgets.run())
    return budgets


def _ask_each_other(budgets: ZoneBudgets, protectors: Mapping[str, CellWebhook], webhooks: OwnWebhooks) -> None:
    """`protectors`: the webhooks of guard's own cluster, by path."""
    for path, webhook in protectors.items():
        webhook.others.add(webhooks.while_called(zone_budgets.EVICTION_PATH, budgets.refusal, unknown=True))
        # PodProtectors may limit deletions alone.
        budgets.others.add(webhooks.while_called(path, webhook.refusal, unknown=False))


def _rollouts(
    api: Api,
    settings: Settings,
    namespace: str,
    metrics: Metrics,
    parts: _Parts,
    locks: GroupLocks,
    downscales: Downscales,
    scaling: Scaling,
    budgets: ZoneBudgets | None,
    run_lease: RunLease | None,
) -> None:
    leadership = _leadership(api, namespace, _LEASE)
    holds = (run_lease, RollingGroups(api, namespace, _LEASE)) if run_lease else None
    rollouts = Rollouts(
        api,
        settings.namespaces,
        leadership,
        metrics,
        settings.interval_seconds,
        locks=locks,
        downscales=downscales,
        scaling=scaling,
        budgets=budgets,
        holds=holds,
    )
    for informers in zip(*(cache.informers for cache in rollouts.caches.values()), strict=True):
        parts.follow(informers)
    # Rollouts work without it, for example with rollout-operator's Role, which doesn't allow listing Leases.
    parts.running += [downscales.leases.run(), rollouts.run()]


def _configurations(api: Api, settings: Settings, namespace: str) -> dict[str, Informer[Object]]:
    """Of guard's webhooks; none where guard writes no authority into them, for which alone it has the right to read."""
    if "webhook" not in settings.roles or settings.certificate_files or not settings.inject:
        return {}
    labels = labels_of(dict.fromkeys((*settings.namespaces, namespace)))
    return {kind: Informer(api, found, keep=whole, labels=labels) for kind, found in CONFIGURATIONS.items()}


def _certificates(
    api: Api,
    settings: Settings,
    namespace: str,
    metrics: Metrics,
    parts: _Parts,
    informers: dict[str, Informer[Object]],
) -> ServedCertificate:
    served = ServedCertificate()
    metrics.certificate_ends.set_function(lambda: served.ends.timestamp() if served.ends else 0)
    parts.questions["certificate"] = lambda: served.why_not(datetime.now(UTC))
    if settings.certificate_files:
        parts.running.append(FileKeeper(*settings.certificate_files, served).run())
        return served
    injection = Injection(api, informers) if informers else None
    short = settings.dns_name.removesuffix(".svc")
    names = tuple(dict.fromkeys((settings.dns_name, short)))
    wanted = Wanted(names, settings.organization, settings.life)
    keeper = CertificateKeeper(CertificateSecret(api, namespace, settings.secret, wanted), served, injection)
    parts.running.append(keeper.run())
    if injection:
        for informer in informers.values():
            informer.tell(keeper.webhooks_changed)
            informer.tell(lambda *_: metrics.webhooks(_policies(informers)))
            parts.follow([informer])
    return served


def _policies(informers: dict[str, Informer[Object]]) -> dict[tuple[str, str], str]:
    return {
        (kind, webhook["name"]): webhook.get("failurePolicy", "Fail")
        for kind, informer in informers.items()
        for found in informer.objects.values()
        for webhook in found.get("webhooks") or []
    }
