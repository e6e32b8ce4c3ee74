"""The section `observability` of `upgrader.yaml`."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator

from upgrader.config.section import Section
from upgrader.model.observability import HttpEndpoint, ObservabilitySettings, WebhookSettings

__all__ = [
    "BasicAuthSection",
    "ClusterName",
    "HttpSection",
    "ObservabilitySection",
    "WebhookSection",
    "observability_settings",
]


def _url(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a URL")
    try:
        url = urlsplit(text)
        whole = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        whole = False
    if not whole or url.query or url.fragment or any(char.isspace() or not char.isprintable() for char in text):
        raise ValueError("write it as https://HOST:PORT, with a path if it needs one")
    if url.username is not None:
        raise ValueError("a URL is shown in logs: put the user into `basicAuth`, and the password into a file")
    return text.rstrip("/")


Url = Annotated[str, BeforeValidator(_url)]
ClusterName = Annotated[str, Field(pattern=r"^[^/\x00-\x1f]*$", max_length=100)]


class BasicAuthSection(Section):
    """A user and the file of their password."""

    username: str = Field(min_length=1, description="The user.")
    password_file: str = Field(min_length=1, description="A file with the password, relative to `upgrader.yaml`.")


class HttpSection(Section):
    """A service that is reached over HTTP. Its certificate is always verified."""

    url: Url = Field(description="The service's address, as https://HOST:PORT. Without TLS, no credentials are sent.")
    basic_auth: BasicAuthSection | None = None
    bearer_token_file: str = Field(default="", description="A file with a bearer token, relative to `upgrader.yaml`.")
    ca_file: str = Field(
        default="",
        description="The CAs that sign the service's certificate (PEM), relative to `upgrader.yaml`. Empty: this "
        "machine's.",
    )

    @model_validator(mode="after")
    def _credentials(self) -> HttpSection:
        if self.basic_auth and self.bearer_token_file:
            raise ValueError("set either 'basicAuth' or 'bearerTokenFile', not both")
        secret = self.basic_auth is not None or bool(self.bearer_token_file)
        if secret and not self.url.startswith("https:") and not _is_loopback(urlsplit(self.url).hostname or ""):
            raise ValueError("credentials would be sent unencrypted: use https://")
        return self

    def at(self, folder: Path) -> HttpEndpoint:
        """With its files in this folder."""
        auth = self.basic_auth
        return HttpEndpoint(
            self.url,
            username=auth.username if auth else "",
            password_file=folder / auth.password_file if auth else None,
            token_file=folder / self.bearer_token_file if self.bearer_token_file else None,
            ca_file=folder / self.ca_file if self.ca_file else None,
        )


class WebhookSection(Section):
    """Messages for people, as Slack's incoming webhooks and compatible ones (Mattermost, Rocket.Chat) read them."""

    url: Url = Field(default="", description="The webhook's address, as https://HOST/PATH.")
    url_file: str = Field(
        default="",
        description="A file that contains the address, instead of `url`; relative to `upgrader.yaml`. Anyone who knows "
        "the address of a Slack webhook can post there.",
    )
    secret_file: str = Field(
        default="",
        description="A file with the secret that each request is signed with, relative to `upgrader.yaml`. Empty: they "
        "are not signed.",
    )
    ca_file: str = Field(default="", description="As in `pushgateway`.")
    events: list[Literal["start", "approval", "failure", "rollback", "end"]] = Field(
        default=["start", "approval", "failure", "rollback", "end"],
        min_length=1,
        description="The events that are sent: a run starts or is resumed, a step waits for an approval, a step fails "
        "or the API is lost, the run is rolled back, and the run ends.",
    )

    @model_validator(mode="after")
    def _one_address(self) -> WebhookSection:
        if bool(self.url) == bool(self.url_file):
            raise ValueError("set either 'url' or 'urlFile'")
        if self.url and not self.url.startswith("https:") and not _is_loopback(urlsplit(self.url).hostname or ""):
            raise ValueError("messages about your cluster would be sent unencrypted: use https://")
        return self

    def at(self, folder: Path) -> WebhookSettings:
        """With its files in this folder."""
        endpoint = HttpEndpoint(
            self.url,
            ca_file=folder / self.ca_file if self.ca_file else None,
            url_file=folder / self.url_file if self.url_file else None,
        )
        return WebhookSettings(endpoint, tuple(self.events), folder / self.secret_file if self.secret_file else None)


class ObservabilitySection(Section):
    """Where a run sends its metrics, traces and messages, and which server it queries
    ([Observability](../observability.md)).
    """

    cluster: ClusterName = Field(
        default="", description="The cluster's name in metrics. Empty: the name of the folder of `upgrader.yaml`."
    )
    textfile_directory: str = Field(
        default="",
        description="The folder that node_exporter's textfile collector reads on this machine "
        "(`--collector.textfile.directory`). The metrics of a run are written there. Empty: nowhere.",
    )
    pushgateway: HttpSection | None = Field(
        default=None, description="The Pushgateway to which a run pushes its metrics."
    )
    prometheus: HttpSection | None = Field(
        default=None,
        description="The server that metric gates query: Prometheus, or another one with its HTTP API below this URL.",
    )
    otlp: HttpSection | None = Field(
        default=None,
        description="The OpenTelemetry collector to which a run sends its trace (OTLP over HTTP, `/v1/traces` below "
        "the "
        "URL).",
    )
    kubernetes_events: bool = Field(
        default=ObservabilitySettings.object_events,
        description="Whether Events are written on the workloads and nodes that a run changes, for `kubectl describe`.",
    )
    webhook: WebhookSection | None = Field(
        default=None, description="Where to send messages when a run needs attention, or ends."
    )


def observability_settings(section: ObservabilitySection, folder: Path) -> ObservabilitySettings:
    """The settings of a section; its paths are relative to `folder`, as is the cluster's default name."""
    return ObservabilitySettings(
        cluster=section.cluster or folder.resolve().name or "cluster",
        textfile_folder=folder / section.textfile_directory if section.textfile_directory else None,
        pushgateway=section.pushgateway.at(folder) if section.pushgateway else None,
        prometheus=section.prometheus.at(folder) if section.prometheus else None,
        webhook=section.webhook.at(folder) if section.webhook else None,
        otlp=section.otlp.at(folder) if section.otlp else None,
        object_events=section.kubernetes_events,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
