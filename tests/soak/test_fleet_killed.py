"""A campaign of fifty clusters whose coordinator is killed again and again; needs no lab. Part of `make soak`."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from testkit.fleet_folder import write_kubeconfig
from testkit.fleet_machine import EMIT, TARGET, Killed, Machine, begun, coordinator, phases
from upgrader.engine.journal.journal_file import Journal
from upgrader.fleet.clusters import Answer

KILLS = 30
FLEET = """\
apiVersion: upgrader.io/v1alpha1
kind: FleetRun
spec:
  target: v1.37.1
  stages:
  - {name: canary, selector: {matchLabels: {ring: canary}}, maxConcurrency: 2, soak: {for: 3m}}
  - {name: production, selector: {matchLabels: {ring: production}}, maxConcurrency: 10, maxFailures: {rolledBack: 5}}
"""


def fifty(folder: Path) -> Machine:
    """Of which one is rolled back, and three are interrupted once."""
    folder.mkdir()
    machine = Machine(folder)
    names = [f"c{number}" for number in range(50)]
    (folder / "fleet.yaml").write_text(FLEET)
    rings = {name: "canary" if number < 4 else "production" for number, name in enumerate(names)}
    lines = [f"- {{name: {name}, uid: u-{name}, labels: {{ring: {ring}}}}}\n" for name, ring in rings.items()]
    (folder / "fleet-inventory.yaml").write_text("".join(["clusters:\n", *lines]))
    for name in names:
        cluster = folder / "clusters" / name
        cluster.mkdir()
        (cluster / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
        write_kubeconfig(cluster)
    machine.answers = {name: Answer(f"u-{name}", TARGET) for name in names}
    machine.exit_codes = {"c1": [130], "c20": [130], "c40": [130], "c30": [4]}
    return machine


def test_killed_at_thirty_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinators that go on reach the end that one alone reaches: no cluster is begun twice, and none is
    forgotten. Those that were interrupted are resumed once.
    """
    alone, killed = fifty(tmp_path / "alone"), fifty(tmp_path / "killed")
    ends = dict[str, tuple[dict[str, str], Counter[str]]]()
    campaign = begun(alone)
    assert coordinator(alone, campaign).run(lambda *_: None)[0].done
    ends["alone"] = phases(campaign), alone.begun
    campaign, dice, kills = begun(killed), random.Random(30), 0

    def killing(journal: Journal, event: object) -> None:
        nonlocal kills
        die, after = kills < KILLS and dice.random() < 0.3, dice.random() < 0.5
        kills += die
        if die and not after:
            raise Killed
        EMIT(journal, event)
        if die:
            raise Killed

    monkeypatch.setattr(Journal, "emit", killing)
    done = False
    while not done:
        with suppress(Killed):
            done = coordinator(killed, campaign).run(lambda *_: None)[0].done
    ends["killed"] = phases(campaign), killed.begun
    assert kills == KILLS and ends["killed"] == ends["alone"]
    assert set(killed.begun) == set(killed.answers) and Counter(killed.begun.values()) == {1: 47, 2: 3}
