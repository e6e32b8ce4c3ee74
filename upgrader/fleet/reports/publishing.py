"""Keeps what people and their monitoring see of a campaign up to date while a coordinator runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from upgrader.app.wiring import metric_sinks, webhook_service
from upgrader.engine.locks.folder_lock import FolderHolder, folder_holder
from upgrader.errors import UpgraderError
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.decide import Decision
from upgrader.fleet.parallel_inquiry import Inquiry
from upgrader.fleet.reports import files
from upgrader.fleet.reports.messenger import Messenger
from upgrader.fleet.reports.metrics import fleet_metrics
from upgrader.fleet.state import CampaignState
from upgrader.fleet.use_cases import FleetStatus
from upgrader.reporting.observability.delivery import Delivery
from upgrader.reporting.observability.exposition import rendered
from upgrader.reporting.observability.sinks import MetricSink
from upgrader.reporting.observability.webhook import MessageSender

__all__ = ["Publisher", "publishing"]

_FILES_SECONDS, _METRICS_SECONDS = 300.0, 60.0
"""How often at least, also if nothing changes: by its age, what was written shows whether a coordinator runs."""
_LEAST_SECONDS = 10.0
"""How often at most: many clusters may change one after the other."""
_LAST_SECONDS = 6.0
"""How long the end waits for the last metrics and messages; a little longer than one request may take."""
_KIND = "fleet"


@contextmanager
def publishing(coordinator: Coordinator, note: Callable[[str], None]) -> Iterator[Publisher]:
    """Publish each look while the context is open, and the last one at its end. `note` takes messages for people, one
    for each place that can't be written.
    """
    sinks = metric_sinks(coordinator.fleet.observability)
    publisher = Publisher(coordinator, sinks, note, _messenger(coordinator, note))
    try:
        yield publisher
    finally:
        publisher.close()


class Publisher:
    """Takes each look of a coordinator. None of what it writes ends or delays the campaign."""

    def __init__(
        self,
        coordinator: Coordinator,
        sinks: Sequence[MetricSink],
        note: Callable[[str], None],
        messenger: Messenger | None = None,
    ) -> None:
        """`messenger` tells people; None: fleet.yaml names no webhook."""
        self._coordinator, self._note, self._messenger = coordinator, note, messenger
        self._deliveries = [
            Delivery("metrics", partial(_send, sink), f"metrics can't be written to {sink.name}", note, of="campaign")
            for sink in sinks
        ]
        self._pages: Inquiry[str, str] = Inquiry()
        self._last: tuple[Decision, CampaignState] | None = None
        self._shown: tuple[Decision, CampaignState] | None = None
        self._files_at = self._metrics_at = float("-inf")
        self._failed = False

    def look(self, decision: Decision, state: CampaignState) -> None:
        """Publish what has changed, and, once in a while, what has not."""
        if self._messenger:
            self._messenger.look(decision)
        self._last = decision, state
        changed, now = self._last != self._shown, self._coordinator.clock.monotonic()
        if now - self._files_at >= (_LEAST_SECONDS if changed else _FILES_SECONDS):
            self._files_at, self._shown = now, self._last
            self._write(last=False)
            self._send()
        elif now - self._metrics_at >= _METRICS_SECONDS:
            self._send()

    def close(self) -> None:
        """Publish the last look, if it isn't yet, and wait for the metrics and messages for some seconds."""
        clock, messenger = self._coordinator.clock, self._messenger
        if messenger:
            messenger.end()
        if self._last is not None:
            self._write(last=True)
            self._send()
        for each in self._deliveries:
            each.end()
        deadline = clock.monotonic() + _LAST_SECONDS
        closes = [*(each.close for each in self._deliveries), *([messenger.close] if messenger else [])]
        for close in closes:
            close(max(0.0, deadline - clock.monotonic()))

    def _status(self, holder: FolderHolder | None = None) -> FleetStatus:
        assert self._last is not None, "there was a look"
        decision, state = self._last
        return FleetStatus(self._coordinator.fleet, self._coordinator.campaign, state, decision, holder)

    def _write(self, *, last: bool) -> None:
        """`last`: this coordinator ends, so that none runs from now on."""
        for _, why in self._pages.answers({files.PAGE: partial(self._written, last=last)}):
            if why is None:
                self._tell(f"a cluster's folder has not answered within {self._pages.seconds:.0f} s: no page")
            elif why:
                self._tell(why)

    def _written(self, *, last: bool) -> str:
        """Write the files, for which folders of clusters are read; why that failed, or ""."""
        coordinator = self._coordinator
        try:
            holder = None if last else folder_holder(coordinator.folder)
            changed = coordinator.campaign.changed_files(coordinator.folder)
            status = replace(self._status(holder), changed=changed)
            files.write_files(status, coordinator.campaign, coordinator.clock.now())
        except UpgraderError as error:
            return error.message
        except Exception as error:  # noqa: BLE001  # a fault of ours in a report must not end a campaign
            return f"its page can't be made: {type(error).__name__}: {error}"
        return ""

    def _tell(self, why: str) -> None:
        if not self._failed:
            self._failed = True
            self._note(f"{why}, but the campaign continues")

    def _send(self) -> None:
        if not self._deliveries:
            return
        self._metrics_at = self._coordinator.clock.monotonic()
        fleet, now = self._coordinator.fleet.observability.cluster, self._coordinator.clock.now()
        content = rendered(fleet_metrics(self._status(), fleet, now))
        for each in self._deliveries:
            each.put(content)


def _messenger(coordinator: Coordinator, note: Callable[[str], None]) -> Messenger | None:
    """As fleet.yaml says; None where it names no webhook."""
    wanted = coordinator.fleet.observability
    service = webhook_service(wanted)
    if wanted.webhook is None or service is None:
        return None
    secret, name = wanted.webhook.secret_file, wanted.cluster
    sender = MessageSender(service, name, secret_file=secret, clock=coordinator.clock, of="Fleet")
    return Messenger(coordinator, sender, wanted.webhook.topics, note)


def _send(sink: MetricSink, content: bytes) -> None:
    sink.write(_KIND, content)
