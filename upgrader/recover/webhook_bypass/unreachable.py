"""Guard's webhooks that can't be reached, and refuse what a run needs: off for the run, and on again at its end.

Writes go through `needed`. If the API server can't call a webhook, it refuses the write and names the webhook. If that
is guard's, and no one else's, it is switched off as `upgrader guard off` does, and the write is retried until all API
servers know it. An event before and one after each switch tell a resumed run what is off.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from upgrader.errors import ApiError, UpgraderError, WorkloadFailed
from upgrader.model.event import Event, Note, RunStarted, WebhookSwitched, WebhookSwitching
from upgrader.model.webhook_ref import WebhookRef
from upgrader.ports import Clock, Kube
from upgrader.recover.webhook_bypass.configurations import LABEL, Former, Webhook, read_webhooks, written
from upgrader.recover.webhook_bypass.probe import why_silent
from upgrader.wait_and_retry import wait_until

__all__ = ["UnreachableWebhooks"]

T = TypeVar("T")

_OURS = f"{LABEL},grafana.com/namespace"
"""Both labels: guard puts its authority into no configuration that lacks the second one."""

_CALL_FAILED = re.compile(r'failed calling webhook \\?"([^"\\]+)')
_DENIED = re.compile("denied (?:the )?request")
"""What follows is another webhook's own text, or a policy's: anybody's label may be in it."""
_KNOWN_SECONDS = 30.0
"""How long an API server may take to know that a webhook is off."""
_PAUSE_SECONDS = 2.0
_ANSWERS_SECONDS = 60.0
"""How long a webhook is waited for at the end: guard may start on nodes that the run has just restored."""
_ASK_AGAIN_SECONDS = 5.0
_REMEDY = "Once it answers, run `upgrader guard on`."


class UnreachableWebhooks:
    """Of one cluster. Outside of `during` nothing is switched: a check has to see what a run would meet.

    It is a reporter, too, to be told of each event after the journal.
    """

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube, self._clock = kube, clock
        self._emit: Callable[[Event], None] | None = None
        self._off: list[WebhookRef] = []
        self._switching = threading.RLock()

    @contextmanager
    def during(self, emit: Callable[[Event], None], off: Iterable[WebhookRef]) -> Iterator[None]:
        """A run, whose events `emit` takes. `off`: those that earlier processes may have switched off for it."""
        self._emit, self._off = emit, list(off)
        try:
            yield
        finally:
            self._emit = None

    def emit(self, event: Event) -> None:
        """A run that begins: webhooks that earlier runs left off are recorded in its journal, too, because theirs
        aren't read from now on.

        One that is resumed has it there already.
        """
        if isinstance(event, RunStarted) and self._emit is not None:
            for which in tuple(self._off):
                self._tell(WebhookSwitching(which, off=True, reason="an earlier run left it switched off"))

    def needed(self, write: Callable[[], T], *, patience_seconds: float = 0.0) -> T:
        """What `write` returns; it is called again after a webhook was switched off. Raises what it raises.

        `patience_seconds`: for how long one has to refuse it until it is switched off. It protects workloads for the
        rest of the run, and may only move to another node: a drain may be what moves it.
        """
        deadline, relieved, since = 0.0, frozenset[str](), dict[str, float]()
        while True:
            try:
                return write()
            except UpgraderError as error:
                now, refusing = self._clock.monotonic(), _refusing(error)
                patient = {name for name in refusing if now - since.setdefault(name, now) < patience_seconds}
                if not refusing or not self._worth_a_try(refusing, patient, error):
                    raise
                if refusing - patient - relieved:
                    relieved, deadline = relieved | refusing - patient, now + _KNOWN_SECONDS
                elif now >= deadline and not patient:
                    raise
            self._clock.sleep(_PAUSE_SECONDS)

    def switch_on(self) -> None:
        """At a run's end: give them back what they selected, in the reverse order, each once it has answered.

        Where one doesn't, it stays off, as do those that were switched off before it; an event says so, with the
        command that is left to do. Raises nothing for it: the run did what it was to do.
        """
        while self._off:
            which = self._off[-1]
            self._tell(WebhookSwitching(which, off=False))
            why = wait_until(
                self._clock,
                lambda which=which: self._still_off(which),  # type: ignore[misc]  # bound now, called in this round
                seconds=_ANSWERS_SECONDS,
                interval_seconds=_ASK_AGAIN_SECONDS,
                what=f"webhook {which} to answer, so that it is switched on again",
                note=lambda text: self._tell(Note(text)),
            )
            self._tell(WebhookSwitched(which, off=False, succeeded=not why, reason=why, remedy=_REMEDY if why else ""))
            if why:
                return
            self._off.pop()

    def remind(self) -> None:
        """At the end of a process that leaves its run to another one."""
        for which in self._off:
            self._tell(
                Note(
                    f"webhook {which} stays off until the run is resumed or rolled back, or you run `upgrader guard on`"
                )
            )

    def _worth_a_try(self, names: frozenset[str], patient: Collection[str], error: UpgraderError) -> bool:
        """Whether some of guard's have these names, and are off now, but for the `patient` ones.

        Why a workload fails is told by its events and logs, which people of its namespace write, or its program: a
        webhook that is named there, and answers, stays on.
        """
        with self._switching:
            if self._emit is None:
                return False
            try:
                found = [each for each in read_webhooks(self._kube, _OURS) if each.name in names]
            except ApiError:
                return False
            if isinstance(error, WorkloadFailed):
                found = [each for each in found if each.is_off or self._is_silent(each)]
            return bool(found) and all(
                each.is_off or each.name in patient or self._switch_off(each, error.message) for each in found
            )

    def _is_silent(self, webhook: Webhook) -> bool:
        """Whether it doesn't answer, or that can't be seen."""
        try:
            return bool(why_silent(self._kube, self._clock, webhook))
        except ApiError:
            return True

    def _switch_off(self, webhook: Webhook, why: str) -> bool:
        which = WebhookRef(webhook.kind, webhook.configuration, webhook.name)
        self._tell(WebhookSwitching(which, off=True, reason=why))
        order = f"{self._clock.now():%Y-%m-%dT%H:%M:%S.%fZ}/0000"
        try:
            written(self._kube, webhook, Former(webhook.content.get("objectSelector") or None, order))
        except ApiError as error:
            self._tell(WebhookSwitched(which, off=True, succeeded=False, reason=error.message))
            return False
        if which not in self._off:
            self._off.append(which)
        self._tell(WebhookSwitched(which, off=True, succeeded=True))
        return True

    def _still_off(self, which: WebhookRef) -> str:
        """Switch it on, if it answers; "" once it is on, or gone, else why not."""
        try:
            found = [
                each
                for each in read_webhooks(self._kube, _OURS)
                if (each.kind, each.configuration, each.name) == (which.kind, which.configuration, which.webhook)
            ]
            for webhook in found:
                if not webhook.is_off:
                    continue
                if webhook.former is None:
                    return (
                        "its previous selector is not recorded: set its objectSelector to the value in its chart or "
                        "manifest"
                    )
                if why := why_silent(self._kube, self._clock, webhook):
                    return why
                written(self._kube, webhook, None)
        except ApiError as error:
            return error.message or "the API server gave no reason"
        return ""

    def _tell(self, event: Event) -> None:
        assert self._emit is not None, "only used during a run"
        self._emit(event)


def _refusing(error: UpgraderError) -> frozenset[str]:
    """The webhooks that the API server couldn't call, by its own word."""
    return frozenset(_CALL_FAILED.findall(_DENIED.split(error.message)[0]))
