"""Whom a run tells of itself, and whom it asks: services beside the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HttpAnswer", "HttpEndpoint", "ObservabilitySettings", "Series", "WebhookSettings"]


@dataclass(frozen=True)
class HttpEndpoint:
    """A service that is reached over HTTP, and the files with its credentials. All paths are absolute."""

    url: str
    """Without credentials, and without a slash at its end; "" where it is in `url_file`."""
    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    """The file of a bearer token."""
    ca_file: Path | None = None
    """The CAs that sign its certificate; None: those of this machine."""
    url_file: Path | None = None
    """The file that has the URL, for one that is a secret itself."""


@dataclass(frozen=True)
class HttpAnswer:
    """What a service answered, whatever its status."""

    status: int
    body: bytes = b""


@dataclass(frozen=True)
class Series:
    """A series that a query has found: its labels, and its values in their order in time."""

    labels: Mapping[str, str]
    values: tuple[float, ...]


@dataclass(frozen=True)
class WebhookSettings:
    """Where messages for people go."""

    endpoint: HttpEndpoint
    topics: tuple[str, ...]
    """What is told of."""
    secret_file: Path | None = None
    """The file of the secret that requests are signed with; None: they are not."""


@dataclass(frozen=True)
class ObservabilitySettings:
    """Where the metrics of runs go, and which Prometheus metric gates ask."""

    cluster: str = ""
    """The cluster's name in metrics."""
    textfile_folder: Path | None = None
    """The folder that node_exporter's textfile collector reads; None: no file is written."""
    pushgateway: HttpEndpoint | None = None
    prometheus: HttpEndpoint | None = None
    webhook: WebhookSettings | None = None
    otlp: HttpEndpoint | None = None
    """The collector that a run's trace goes to."""
    object_events: bool = False
    """Whether Events are written on the objects that a run changes."""

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """The files with credentials, each once."""
        hook = self.webhook
        services = [self.pushgateway, self.prometheus, self.otlp, hook.endpoint if hook else None]
        files = [hook.secret_file if hook else None]
        for each in services:
            files += [each.password_file, each.token_file, each.url_file] if each else []
        return tuple(dict.fromkeys(file for file in files if file is not None))
