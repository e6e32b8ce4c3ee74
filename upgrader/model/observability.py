"""The services beside the cluster that a run reports to, and those that it queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HttpAnswer", "HttpEndpoint", "ObservabilitySettings", "Series", "WebhookSettings"]


@dataclass(frozen=True)
class HttpEndpoint:
    """A service that is reached over HTTP, and the files with its credentials. All paths are absolute."""

    url: str
    """Without credentials and without a slash at its end; "" if it is in `url_file`."""
    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    """The file of a bearer token."""
    ca_file: Path | None = None
    """The CAs that sign its certificate; None: this machine's."""
    url_file: Path | None = None
    """The file that contains the URL, if the URL itself is a secret."""


@dataclass(frozen=True)
class HttpAnswer:
    """What a service answered, whatever its status."""

    status: int
    body: bytes = b""


@dataclass(frozen=True)
class Series:
    """A series in the result of a query: its labels, and its values by time."""

    labels: Mapping[str, str]
    values: tuple[float, ...]


@dataclass(frozen=True)
class WebhookSettings:
    """Where messages for people go."""

    endpoint: HttpEndpoint
    topics: tuple[str, ...]
    """The events that are reported."""
    secret_file: Path | None = None
    """The file with the secret that signs requests; None: they are not signed."""


@dataclass(frozen=True)
class ObservabilitySettings:
    """Where the metrics of runs go, and which Prometheus the metric gates query."""

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
