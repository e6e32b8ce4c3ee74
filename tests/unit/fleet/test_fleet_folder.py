"""`fleet.yaml` and `fleet-inventory.yaml`: what is wrong is said with file and line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from testkit.fleet_folder import FLEET, INVENTORY, write_fleet
from upgrader.config.yaml_document import read_mapping
from upgrader.config.yaml_schema import schema_text
from upgrader.errors import ConfigError, UsageError
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.model import Fleet
from upgrader.model.observability import HttpEndpoint, WebhookSettings

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def read(folder: Path, fleet: str = FLEET, inventory: str = INVENTORY) -> Fleet:
    return read_fleet(write_fleet(folder, fleet, inventory), NOW)


def test_fleet(tmp_path: Path) -> None:
    """Every key reaches the fleet; a cluster belongs to the stage that selects it."""
    fleet = read(tmp_path)
    assert {name: stage.name for name, stage in fleet.stage_of.items()} == {
        "a": "canary",
        "b": "production",
        "c": "production",
    }
    canary, production = fleet.stages
    assert (canary.soak_seconds, canary.approval, canary.max_concurrency.at_once(1)) == (86400.0, False, 1)
    assert (production.approval, str(production.max_concurrency)) == (True, "50%")
    assert (str(production.max_failures.rolled_back), str(production.max_failures.blocked)) == ("2%", "0")
    assert (production.on_unreachable.wait_seconds, production.on_unreachable.then) == (48 * 3600.0, "skip")
    assert fleet.domain_of("a") == "north" and fleet.excluded == ("d",)
    assert fleet.by_name["a"].folder == tmp_path / "clusters/a"
    assert fleet.windows[0].seconds == 4 * 3600.0 and fleet.exclusions[0].first.isoformat() == "2026-12-15"


def test_webhook_is_as_a_runs(tmp_path: Path) -> None:
    """It has the same keys as in upgrader.yaml, with files of the fleet's folder; a campaign that was begun, too."""
    assert read(tmp_path).observability.webhook is None
    webhook = "{urlFile: slack, secretFile: key, events: [approval, end]}"
    write_fleet(tmp_path, f"{FLEET}  observability: {{webhook: {webhook}}}\n")
    begun = tmp_path / "runs/20261201T000000-fleet-v1.37.1"
    begun.mkdir(parents=True)
    for name in ("fleet.yaml", "fleet-inventory.yaml"):
        (begun / name).write_bytes((tmp_path / name).read_bytes())
    expected = WebhookSettings(HttpEndpoint("", url_file=tmp_path / "slack"), ("approval", "end"), tmp_path / "key")
    for each in (None, begun):
        assert read_fleet(tmp_path, NOW, begun=each).observability.webhook == expected


@pytest.mark.parametrize(
    ("webhook", "said"),
    [
        ("{}", "set either 'url' or 'urlFile'"),
        ("{url: 'http://chat.example/x'}", "would be sent unencrypted"),
        ("{url: 'https://a:b@chat.example/x'}", "put the user into"),
        ("{url: 'https://chat.example/x', events: [begin]}", "events"),
    ],
)
def test_refused_webhooks(tmp_path: Path, webhook: str, said: str) -> None:
    """What upgrader.yaml must not have, fleet.yaml must not have either."""
    with pytest.raises(ConfigError, match=r"fleet\.yaml:\d+: ") as error:
        read(tmp_path, f"{FLEET}  observability: {{webhook: {webhook}}}\n")
    assert said in str(error.value)


WRONG_FLEETS = [
    ("ring: canary}}", "ring: cnaary}}", "fleet.yaml:7: stage canary selects no cluster of the inventory"),
    ("ring: canary}}", "ring: cnaary}}", "fleet.yaml:5: no stage selects a"),
    ("{matchLabels: {ring: canary}}", "{}", "fleet.yaml:10: b, c would be in stage production and in canary"),
    ("  - name: production", "  - name: canary", "fleet.yaml:9: two stages have the name canary"),
    ("  exclude: [d]\n", "", "fleet.yaml:5: no stage selects d"),
    ("exclude: [d]", "exclude: [d, e]", "fleet.yaml:16: the inventory has no cluster e"),
    ("maxConcurrency: 50%", "maxConcurrency: 0%", "fleet.yaml:12: 0 clusters at the same time"),
    ("maxConcurrency: 50%", "maxConcurrency: many", "fleet.yaml:12: 'spec.stages.maxConcurrency': 'many' is neither"),
    ("maxConcurrency", "maxConcurency", "fleet.yaml:12: unknown key 'maxConcurency'; did you mean 'maxConcurrency'?"),
    ("label: region", "label: zone", "fleet.yaml:15: a, b, c: no label zone, so the domain is unknown"),
    ("0 22 * * 1-4", "0 0 30 2 *", "fleet.yaml:17: the window never opens: no day of the next 8 years"),
    ("0 22 * * 1-4", "0 25 * * 1-4", "fleet.yaml:17: hour '25': must be a number from 0 to 23"),
    ("duration: 4h", "duration: 30m", "fleet.yaml:17: the window is too short"),
    (
        "Europe/Berlin}]\n  exclusions",
        "Europe/Bonn}]\n  exclusions",
        "fleet.yaml:17: 'Europe/Bonn' is not an IANA time",
    ),
    ("selector: {}", "selector: {matchLabels: {ring: x}}", "fleet.yaml:17: the window selects no cluster"),
    (
        "selector: {}",
        "selector: {matchExpressions: [{key: ring, operator: In}]}",
        "fleet.yaml:17: operator In needs values",
    ),
    (
        "selector: {}",
        "selector: {matchExpressions: [{key: ring, operator: Exists, values: [a]}]}",
        "fleet.yaml:17: operator Exists takes no values",
    ),
    ("to: 2027-01-06", "to: 2026-12-06", "fleet.yaml:18: the exclusion ends on 2026-12-06, before it begins"),
    ("to: 2027-01-06", "to: 2027-13-06", "fleet.yaml:18: 'spec.exclusions.to': '2027-13-06' is not a valid date"),
    (
        "2026-12-15, to: 2027-01-06",
        "2026-11-15, to: 2126-01-06",
        "fleet.yaml:17: the window never opens for a: exclusions cover it",
    ),
    ("kind: FleetRun", "kind: Fleet", "fleet.yaml:2: 'kind' must be one of 'FleetRun', not 'Fleet'"),
    ("for: 24h", "for: 24", "fleet.yaml:8: 'spec.stages.soak.for': 24 is not a duration"),
    ("type: Approval", "type: Manual", "fleet.yaml:11: 'spec.stages.before.type' must be one of 'Approval'"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WRONG_FLEETS)
def test_wrong_fleet(tmp_path: Path, right: str, wrong: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault of fleet.yaml is named with its line."""
    monkeypatch.chdir(tmp_path)
    assert right in FLEET
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, FLEET.replace(right, wrong, 1))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("uid: u2", "uid: u1", "fleet-inventory.yaml:3: two clusters have the uid u1; see line 2"),
        ("name: b", "name: a", "fleet-inventory.yaml:3: two clusters have the name a; see line 2"),
        ("uid: u2", "folder: clusters/a, uid: u2", "fleet-inventory.yaml:3: two clusters have the folder clusters/a"),
        ("name: d", "name: e", "fleet-inventory.yaml:5: clusters/e, the folder of cluster e, is not a cluster folder"),
        ("name: d", "name: D/..", "fleet-inventory.yaml:5: 'clusters.name': 'D/..' is not a valid name"),
        (", uid: u3", "", "fleet-inventory.yaml:4: key 'clusters.uid' is missing"),
    ],
)
def test_wrong_inventory(tmp_path: Path, right: str, wrong: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault of fleet-inventory.yaml is named with its line."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, inventory=INVENTORY.replace(right, wrong, 1))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("right", "wrong", "remedy"),
    [
        (", uid: u3", "", "kubectl --kubeconfig clusters/NAME/kubeconfig get namespace kube-system"),
        ("name: d", "name: e", "upgrader -C clusters/e init"),
    ],
)
def test_what_a_cluster_lacks(
    tmp_path: Path, right: str, wrong: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is named that shows, or writes, it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, inventory=INVENTORY.replace(right, wrong, 1))
    assert remedy in caught.value.remedy


def test_all_faults_at_once(tmp_path: Path) -> None:
    """Faults of both files are told together, so that nobody finds them one by one."""
    fleet = FLEET.replace("label: region", "label: zone")
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, fleet, INVENTORY.replace("uid: u2", "uid: u1"))
    assert "two clusters have the uid" in caught.value.message and "label zone" in caught.value.message


def test_no_fleet_folder(tmp_path: Path) -> None:
    """A folder without the files is told to be none."""
    with pytest.raises(UsageError, match=r"is not a fleet folder: it has no fleet-inventory\.yaml"):
        read_fleet(tmp_path, NOW)


@pytest.mark.parametrize(("file", "text"), [("fleet.yaml", FLEET), ("fleet-inventory.yaml", INVENTORY)])
def test_published_schemas(tmp_path: Path, file: str, text: str) -> None:
    """The published schema takes the file that upgrader takes, and refuses one with an unknown key."""
    schema = jsonschema.Draft202012Validator(json.loads(schema_text(file)))
    (tmp_path / file).write_text(text)
    data = read_mapping(tmp_path / file).data
    assert [each.message for each in schema.iter_errors(data)] == []
    assert list(schema.iter_errors({**data, "more": "1"}))
