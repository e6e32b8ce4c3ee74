"""The section `observability`."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.load import load_settings
from upgrader.errors import ConfigError
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings, WorkloadGate
from upgrader.model.observability import HttpEndpoint, ObservabilitySettings, WebhookSettings
from upgrader.model.settings import Settings


def load(folder: Path, section: str) -> Settings:
    (folder / "upgrader.yaml").write_text(f"kubernetesVersion: v1.37.1\nobservability: {section}\n")
    return load_settings(folder, {})


def test_nobody_is_told_by_default(tmp_path: Path) -> None:
    """Without the section, nothing leaves the run; the cluster is called like its folder."""
    assert load(tmp_path, "{}").observability == ObservabilitySettings(cluster=tmp_path.name)


def test_all_keys(tmp_path: Path) -> None:
    """Files are relative to upgrader.yaml, and a URL's last slash doesn't matter."""
    found = load(
        tmp_path,
        "{cluster: prod, textfileDirectory: /var/lib/node, pushgateway: {url: 'https://push.example:9091/x/', "
        "basicAuth: {username: ann, passwordFile: secret}, caFile: ca.crt}}",
    ).observability
    push = HttpEndpoint("https://push.example:9091/x", "ann", tmp_path / "secret", ca_file=tmp_path / "ca.crt")
    assert found == ObservabilitySettings("prod", Path("/var/lib/node"), push)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{pushgateway: {url: push.example}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'file:///etc/passwd'}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'https://h:99999'}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'https://h/a b'}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'https://ann:pw@h'}}", "put the user into `basicAuth`"),
        ("{pushgateway: {url: 'http://h', bearerTokenFile: t}}", "use https://"),
        (
            "{pushgateway: {url: 'https://h', bearerTokenFile: t, basicAuth: {username: a, passwordFile: b}}}",
            "either 'basicAuth' or 'bearerTokenFile'",
        ),
        ("{cluster: a/b}", "cluster"),
    ],
)
def test_refused(tmp_path: Path, section: str, said: str) -> None:
    """What can't work, or would send a secret in the clear, is an error of the file."""
    with pytest.raises(ConfigError, match=r"upgrader\.yaml:2") as caught:
        load(tmp_path, section)
    assert said in caught.value.message


def test_credentials_to_this_machine(tmp_path: Path) -> None:
    """A Pushgateway on this machine needs no TLS."""
    found = load(tmp_path, "{pushgateway: {url: 'http://localhost:9091', bearerTokenFile: t}}").observability
    assert found.pushgateway == HttpEndpoint("http://localhost:9091", token_file=tmp_path / "t")


PROMETHEUS = "{prometheus: {url: 'http://localhost:9090'}}"


def gates(folder: Path, step: str, everywhere: str = "[]", observability: str = PROMETHEUS) -> Settings:
    """Of a file with one playbook that has these gates."""
    (folder / "p.yml").write_text("[]\n")
    text = (
        f"kubernetesVersion: v1.37.1\nobservability: {observability}\ngates: {{deadline: 2m, metrics: {everywhere}}}\n"
    )
    (folder / "upgrader.yaml").write_text(f"{text}pipeline:\n  - playbook: p.yml\n    gates: {step}\n")
    return load_settings(folder, {})


def test_metric_gates(tmp_path: Path) -> None:
    """A step's gates come with the defaults of the file, and those of every step are known, too."""
    found = gates(
        tmp_path,
        "[{metric: errors, query: sum(e), max: 1}, {daemonset: a/b}]",
        "[{metric: ok, query: min(up), min: 1, max: 2, window: 3m, interval: 10s, deadline: 9m}]",
    )
    errors = MetricGateSettings("errors", "sum(e)", GatePolicy(1, 5.0, 180.0), None, 1.0, 60.0)
    everywhere = MetricGateSettings("ok", "min(up)", GatePolicy(1, 10.0, 540.0), 1.0, 2.0, 180.0)
    assert found.pipeline[0].gates == (WorkloadGate("daemonset", "a", "b", GatePolicy(3, 1.0, 120.0)), errors)
    assert found.metric_gates == (everywhere,) and found.all_metric_gates == (errors, everywhere)
    assert found.shortest_interval_seconds == 1.0


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ("{metric: a, query: up}", "a metric gate needs a limit"),
        ("{metric: a, query: '', max: 1}", "query' must not be empty"),
        ("{metric: a, max: 1}", "query' is missing"),
        ("{query: up, max: 1}", "metric' is missing"),
        ("{metric: A b, query: up, max: 1}", "metric"),
        ("{metric: a, query: up, max: .nan}", "is not a number"),
        ("{metric: a, query: up, max: '1'}", "is not a number"),
        (f"{{metric: a, query: up, max: 1{'0' * 400}}}", "is not a number"),
        (f"{{metric: a, query: up, max: 1, window: {'9' * 400}s}}", "is longer than a hundred years"),
        ("{metric: a, query: up, min: 2, max: 1}", "greater than 'max'"),
        ("{metric: a, query: up, max: 1, window: 5m, deadline: 5m}", "it would never pass"),
        ("{metric: a, query: up, max: 1, consecutive: 3}", "unknown key 'consecutive'"),
        ("{metric: a, query: up, max: 1, daemonset: a/b}", "unknown key 'metric'"),
        ("{metric: a, query: up, max: 1}, {metric: a, query: up, max: 2}", "two metric gates named 'a'"),
        ("{metric: everywhere, query: up, max: 1}", "two metric gates named 'everywhere'"),
    ],
)
def test_refused_metric_gates(tmp_path: Path, gate: str, said: str) -> None:
    """A gate that could never pass, or always would, is an error of the file and its line."""
    with pytest.raises(ConfigError, match=r"upgrader\.yaml:\d") as caught:
        gates(tmp_path, f"[{gate}]", "[{metric: everywhere, query: up, max: 1}]")
    assert said in caught.value.message


def test_metric_gate_without_a_prometheus(tmp_path: Path) -> None:
    """Whom to ask must be named, before a run begins."""
    with pytest.raises(ConfigError, match=r"metric gate 'a' needs a Prometheus") as caught:
        gates(tmp_path, "[{metric: a, query: up, max: 1}]", observability="{}")
    assert "observability: {prometheus:" in caught.value.remedy


def test_approval(tmp_path: Path) -> None:
    """`approval` before a step waits for an hour, unless it has a deadline of its own; without it, for nobody."""
    (tmp_path / "p.yml").write_text("[]\n")
    for text, expected in (("", None), ("approval: {}", 3600.0), ("approval: {deadline: 8h}", 28800.0)):
        lines = [
            "kubernetesVersion: v1.37.1",
            "pipeline:",
            "  - release: kubernetes",
            *([f"    {text}"] if text else []),
        ]
        lines += ["  - playbook: p.yml", *([f"    {text}"] if text else [])]
        (tmp_path / "upgrader.yaml").write_text("\n".join(lines))
        assert [item.approval_seconds for item in load_settings(tmp_path, {}).pipeline] == [expected, expected]


def test_webhook(tmp_path: Path) -> None:
    """A URL that is a secret is in a file; everything is told, unless `events` says what."""
    found = load(tmp_path, "{webhook: {urlFile: slack, secretFile: key}}").observability.webhook
    everything = ("start", "approval", "failure", "rollback", "end")
    assert found == WebhookSettings(HttpEndpoint("", url_file=tmp_path / "slack"), everything, tmp_path / "key")
    found = load(tmp_path, "{webhook: {url: 'https://hooks.example/x', events: [end]}}").observability.webhook
    assert found == WebhookSettings(HttpEndpoint("https://hooks.example/x"), ("end",))


@pytest.mark.parametrize(
    ("webhook", "said"),
    [
        ("{}", "either 'url' or 'urlFile'"),
        ("{url: 'https://h/x', urlFile: f}", "either 'url' or 'urlFile'"),
        ("{url: 'http://h/x'}", "use https://"),
        ("{urlFile: f, events: []}", "must not be empty"),
        ("{urlFile: f, events: [begin]}", "must be one of"),
    ],
)
def test_refused_webhooks(tmp_path: Path, webhook: str, said: str) -> None:
    """A webhook that can't work, or would be read on its way, is an error of the file."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"{{webhook: {webhook}}}")
    assert said in caught.value.message


def test_collector_and_events(tmp_path: Path) -> None:
    """Traces go where `otlp` says, and Events are written where they are wanted."""
    found = load(tmp_path, "{otlp: {url: 'http://localhost:4318'}, kubernetesEvents: true}").observability
    assert (found.otlp, found.object_events) == (HttpEndpoint("http://localhost:4318"), True)
