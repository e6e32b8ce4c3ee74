"""Messages for people by a webhook; of a run, in a thread of its own."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ServiceError
from upgrader.model.event import Event, RunEnded
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.ports import Clock, HttpService
from upgrader.reporting.observability.delivery import Delivery
from upgrader.reporting.observability.messages import Message, Topic, ending, message_of, payload

__all__ = ["SIGNATURE", "TIMESTAMP", "MessageSender", "Webhook", "signature"]

SIGNATURE, TIMESTAMP = "X-Upgrader-Signature", "X-Upgrader-Timestamp"


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 of `v1:TIMESTAMP:BODY`, as hexadecimal digits behind `v1=`."""
    return "v1=" + hmac.new(secret, b"v1:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()


class MessageSender:
    """Posts messages, one after the other."""

    def __init__(
        self, service: HttpService, name: str, *, secret_file: Path | None, clock: Clock, of: str = "Cluster"
    ) -> None:
        """`name` and `of` are as in `payload`. Without a `secret_file`, requests aren't signed."""
        self._service, self._name, self._of = service, name, of
        self._secret_file, self._clock = secret_file, clock

    def send(self, message: Message) -> None:
        """Post it, twice if the first time fails. Raises ServiceError, OSError and ValueError."""
        body = json.dumps(payload(message, self._name, of=self._of)).encode(errors="replace")
        headers = {"Content-Type": "application/json", **self._signed(body)}
        try:
            self._post(body, headers)
        except ServiceError as first:
            try:
                self._post(body, headers)
            except ServiceError:
                raise first from None  # behind a server that hangs, the second only says that the first isn't over

    def _post(self, body: bytes, headers: Mapping[str, str]) -> None:
        answer = self._service.send("POST", "", body, headers)
        if not 200 <= answer.status < 300:
            raise ServiceError(f"it answered {answer.status}")

    def _signed(self, body: bytes) -> dict[str, str]:
        if self._secret_file is None:
            return {}
        secret = self._secret_file.read_text(encoding="utf-8").strip()
        if not secret:
            raise ValueError(f"{self._secret_file} is empty")
        KNOWN.learn([secret])
        timestamp = str(int(self._clock.now().timestamp()))
        return {TIMESTAMP: timestamp, SIGNATURE: signature(secret.encode(), timestamp, body)}


class Webhook:
    """A Reporter that never waits for the webhook's server. `note` is called once if it fails."""

    def __init__(
        self,
        state: RunState,
        service: HttpService,
        *,
        cluster: str,
        topics: Collection[Topic],
        secret_file: Path | None,
        clock: Clock,
        note: Callable[[str], None],
    ) -> None:
        """`state` is the run's so far. Without a `secret_file`, requests aren't signed."""
        self._state, self._clock, self._topics = state, clock, frozenset(topics)
        self._ended = False
        sender = MessageSender(service, cluster, secret_file=secret_file, clock=clock)
        self._delivery = Delivery("webhook", sender.send, "messages can't be sent to the webhook", note)

    def emit(self, event: Event) -> None:
        """Queue the message about the event."""
        before = self._state
        self._state = follow(before, event, self._clock.now())
        self._ended = isinstance(event, RunEnded) or (self._ended and self._state.outcome is not None)
        message = message_of(event, before, self._state)
        if message is not None:
            self._put(message)

    def end(self) -> None:
        """No more events will come. A run that has recorded no end was interrupted."""
        if self._state.run and not self._ended:
            self._put(ending(self._state))
        self._delivery.end()

    def close(self, seconds: float) -> None:
        """Wait until the queue is sent, for so long at most."""
        self._delivery.close(seconds)

    def _put(self, message: Message) -> None:
        if message.topic in self._topics:
            self._delivery.put(message)
