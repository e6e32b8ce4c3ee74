"""docs/fleet.md: its files are valid together, and its commands do what it says they do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import server_of, write_kubeconfig
from tests.unit.cli.test_fleet import checked
from upgrader.app import upgrade
from upgrader.cli.main import cli
from upgrader.errors import CampaignStopped
from upgrader.fleet import clusters, use_cases
from upgrader.fleet.campaigns import newest_campaign
from upgrader.fleet.clusters import Answer
from upgrader.fleet.events import Pins
from upgrader.fleet.local_executor import LocalExecutor
from upgrader.fleet.outcomes import CommandEnd
from upgrader.fleet.reports import files
from upgrader.model.version import KubernetesVersion

PAGE = Path(__file__).parents[3] / "docs/fleet.md"
SETTINGS = """\
kubernetesVersion: v1.36.3
observability: {prometheus: {url: https://prometheus.example.com}}
gates: {metrics: [{metric: api-errors, query: errors, max: 1}]}
"""


def examples() -> Mapping[str, str]:
    """The page's files, by their names."""
    found = re.findall(r"```yaml\n# ([\w-]+\.yaml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(found)


def commands(heading: str) -> list[list[str]]:
    """The commands of the first transcript below a heading, without `upgrader`."""
    block = PAGE.read_text().partition(f"## {heading}\n")[2].partition("```console\n")[2].partition("```")[0]
    lines = [shlex.split(line.removeprefix("$ "), comments=True) for line in block.splitlines() if line[0] == "$"]
    assert all(program == "upgrader" for program, *_ in lines)
    return [arguments for _, *arguments in lines]


@pytest.fixture
def clock() -> FakeClock:
    """The fleet's."""
    return FakeClock()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> Path:
    """The folder `fleet` with the page's files, whose clusters answer, and whose first run is blocked by a check."""
    made = tmp_path / "fleet"
    made.mkdir()
    for name, text in examples().items():
        (made / name).write_text(text)
    uids = {each["name"]: each["uid"] for each in yaml.safe_load(examples()["fleet-inventory.yaml"])["clusters"]}
    for name in uids:
        cluster = made / "clusters" / name
        cluster.mkdir(parents=True)
        (cluster / "upgrader.yaml").write_text(SETTINGS)
        write_kubeconfig(cluster)
    target = KubernetesVersion.release("v1.37.1")
    monkeypatch.setattr(use_cases, "system_clock", lambda: clock)
    monkeypatch.setattr(files, "system_clock", lambda: clock)
    monkeypatch.setattr(use_cases, "ask_cluster", lambda kubeconfig: Answer(uids[server_of(kubeconfig)], target))
    monkeypatch.setattr(use_cases, "own_pins", lambda: Pins("1", "c", "p"))
    monkeypatch.setattr(clusters, "ask_traits", lambda _: ())
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_, **__: checked())
    monkeypatch.setattr(LocalExecutor, "start", lambda *_: None)
    monkeypatch.setattr(LocalExecutor, "running", lambda *_: False)
    monkeypatch.setattr(LocalExecutor, "end", lambda *_: CommandEnd(3, "", "Blocked", "etcd has an alarm"))
    monkeypatch.delenv("UPGRADER_KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return made


def typed(clock: FakeClock, arguments: list[str]) -> str:
    """What a command prints, some seconds after the one before; a question is answered with yes. A campaign that needs
    a person has run.
    """
    clock.sleep(5)
    result = CliRunner().invoke(cli, arguments, input="y\n")
    if not isinstance(result.exception, CampaignStopped):
        assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.output


def test_page_from_top_to_bottom(folder: Path, clock: FakeClock) -> None:
    """Its fleet is planned and begun, and each of its requests is taken; then its reports are written."""
    campaign = commands("The campaign")
    assert [arguments[3] for arguments in campaign] == ["plan", "run", "status", "approve", "pause", "retry"]
    for arguments in campaign:
        if arguments[3] == "retry":  # what is run again has failed, or was skipped
            typed(clock, [*arguments[:3], "skip", arguments[4], "--reason", "later"])
        typed(clock, arguments)
    found = newest_campaign(folder)
    assert found is not None
    state = found.state()
    assert (state.clusters["eu-1"].phase, state.clusters["eu-2"].phase) == ("blocked", "waiting")
    assert state.approved["production"].reason == "canary is quiet" and state.paused
    page, calendar = commands("Reports, metrics and a calendar")
    typed(clock, [each for each in page if each != "--open"])
    assert "eu-1" in (found.folder / "fleet.html").read_text()
    assert typed(clock, calendar).startswith("BEGIN:VCALENDAR")
