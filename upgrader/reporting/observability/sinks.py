"""Where metrics go: a file for node_exporter, and a Pushgateway."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import ServiceError
from upgrader.ports import HttpService

__all__ = ["MetricSink", "Pushgateway", "Textfile"]

_JOB = "upgrader"
_READABLE = 0o644
"""node_exporter runs as a user of its own; metrics are no secret."""
_SHOWN = 200


class MetricSink(Protocol):
    """Takes the metrics of a run again and again, all of them each time."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    def write(self, kind: str, content: bytes) -> None:
        """Replace the metrics of the newest run of this kind. Raises ServiceError and OSError."""
        ...


@dataclass(frozen=True)
class Textfile:
    """`upgrader-CLUSTER-KIND.prom` in the folder that node_exporter's textfile collector reads."""

    folder: Path
    cluster: str

    @property
    def name(self) -> str:
        return f"the textfile collector's folder {self.folder}"

    def write(self, kind: str, content: bytes) -> None:
        """Replaced as a whole: the collector never reads half a file. The temporary file doesn't end in `.prom`."""
        cluster = re.sub(r"[^A-Za-z0-9._-]", "_", self.cluster)
        write_atomic(self.folder / f"upgrader-{cluster}-{kind}.prom", content, _READABLE)


@dataclass(frozen=True)
class Pushgateway:
    """The group of a cluster and a kind of run in a Pushgateway; PUT, so that series of the run before are gone."""

    service: HttpService
    cluster: str

    name = "the Pushgateway"

    def write(self, kind: str, content: bytes) -> None:
        path = f"/metrics/job/{_JOB}/instance/{quote(self.cluster, safe='')}/kind/{quote(kind, safe='')}"
        answer = self.service.send("PUT", path, content, {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
        if answer.status not in (200, 202):
            said = answer.body[:_SHOWN].decode(errors="replace").strip()
            raise ServiceError(f"it answered {answer.status}{f': {said}' if said else ''}")
