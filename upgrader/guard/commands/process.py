"""The process: servers, certificates and caches, joined."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from upgrader.guard.commands.flags import Settings
from upgrader.guard.logs import LOG
from upgrader.guard.roles import no_downscale
from upgrader.guard.roles.admission_server import admission_app
from upgrader.guard.runtime.api_client import Api
from upgrader.guard.runtime.ca_injection import CONFIGURATIONS, Injection, labels_of
from upgrader.guard.runtime.certificate_bundle import Wanted
from upgrader.guard.runtime.certificate_keeper import CertificateKeeper, FileKeeper
from upgrader.guard.runtime.certificate_secret import CertificateSecret
from upgrader.guard.runtime.connection import Connection
from upgrader.guard.runtime.http_servers import ServedCertificate, listening
from upgrader.guard.runtime.informer import Informer
from upgrader.guard.runtime.metrics import Metrics
from upgrader.guard.runtime.status_server import Question, status_app

__all__ = ["serve"]

_DRAIN_SECONDS = 5.0
"""After it is told to end: until then, API servers and kube-proxy know that it isn't ready."""


async def serve(settings: Settings, connection: Connection, namespace: str, stop: asyncio.Event) -> None:
    """Until `stop`; then no longer ready, and after a while the end. `namespace`: where its Secret is."""
    metrics, served = Metrics(), ServedCertificate()
    metrics.certificate_ends.set_function(lambda: served.ends.timestamp() if served.ends else 0)
    async with Api(connection) as api:
        informers = _configurations(api, settings, namespace) if settings.inject else {}
        keeper = _keeper(api, settings, namespace, served, informers)
        for informer in informers.values():
            informer.tell(lambda *_: metrics.webhooks(_policies(informers)))
        roles = {no_downscale.PATH: no_downscale.NoDownscale(api)}
        admission = admission_app(roles, metrics, timeout_seconds=settings.timeout_seconds, dry_run=settings.dry_run)
        questions: dict[str, Question] = {
            "process": lambda: "it is ending" if stop.is_set() else "",
            "certificate": lambda: served.why_not(datetime.now(UTC)),
            **{f"cache of {informer.name}": _synced(informer) for informer in informers.values()},
        }
        async with (
            listening(status_app(questions, metrics), settings.port) as port,
            listening(admission, settings.tls_port, served.context) as tls_port,
            asyncio.TaskGroup() as tasks,
        ):
            LOG.info("started", extra={"port": port, "tls_port": tls_port, "namespace": namespace})
            running = [tasks.create_task(each.run()) for each in (keeper, *informers.values())]
            await stop.wait()
            LOG.info("ending")
            await asyncio.sleep(_DRAIN_SECONDS)
            for task in running:
                task.cancel()


def _keeper(
    api: Api, settings: Settings, namespace: str, served: ServedCertificate, informers: dict[str, Informer]
) -> CertificateKeeper | FileKeeper:
    if settings.certificate_files:
        return FileKeeper(*settings.certificate_files, served)
    short = settings.dns_name.removesuffix(".svc")
    names = (settings.dns_name,) if short == settings.dns_name else (settings.dns_name, short)
    wanted = Wanted(names, settings.organization, settings.life)
    injection = Injection(api, informers) if informers else None
    keeper = CertificateKeeper(CertificateSecret(api, namespace, settings.secret, wanted), served, injection)
    for informer in informers.values():
        informer.tell(keeper.webhooks_changed)
    return keeper


def _configurations(api: Api, settings: Settings, namespace: str) -> dict[str, Informer]:
    labels = labels_of(dict.fromkeys((*settings.namespaces, namespace)))
    return {kind: Informer(api, resource, labels=labels) for kind, resource in CONFIGURATIONS.items()}


def _policies(informers: dict[str, Informer]) -> dict[tuple[str, str], str]:
    return {
        (kind, webhook["name"]): webhook.get("failurePolicy", "Fail")
        for kind, informer in informers.items()
        for found in informer.objects.values()
        for webhook in found.get("webhooks") or []
    }


def _synced(informer: Informer) -> Question:
    return lambda: "" if informer.synced.is_set() else "not listed yet"
