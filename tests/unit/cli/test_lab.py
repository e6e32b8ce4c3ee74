"""`upgrader lab`: what it refuses, and what a lab like another cluster is made of."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from testkit.fakes.clock import FakeClock
from tests.unit.model.cluster_copy.examples import NODES, copied, worker
from upgrader.cli import lab
from upgrader.cli.main import cli
from upgrader.config.cluster_copy_yaml import copy_text
from upgrader.engine.locks.folder_lock import folder_lock
from upgrader.errors import ConfigError, Locked, UsageError
from upgrader.lab.lifecycle import Filled, Lab
from upgrader.lab.spec import LabSpec, Placement


def test_a_lab_with_a_run_at_work_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who works on it is named, and --force removes it all the same, as does `lab down` once the run has ended."""
    removed: list[str] = []
    placement = SimpleNamespace(folder=tmp_path, spec=SimpleNamespace(name="demo"))
    found = SimpleNamespace(placement=placement, down=lambda: removed.append("demo"))
    monkeypatch.setattr(lab, "_find", lambda *_: found)
    with folder_lock(tmp_path, "anna@build-7 (process 4711)", FakeClock()):
        error = CliRunner().invoke(cli, ["lab", "down"]).exception
        assert isinstance(error, Locked) and "anna@build-7 (process 4711) has been working on lab demo" in error.message
        assert removed == []
        assert CliRunner().invoke(cli, ["lab", "down", "--force"]).exit_code == 0
    assert CliRunner().invoke(cli, ["lab", "down"]).exit_code == 0
    assert removed == ["demo", "demo"]


class Made:
    """The labs that were made, adopted and filled, in this order; none exists."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, Any]] = []
        self.placement: Placement | None = None
        self.filled, self.completes = False, True

        def up(spec: LabSpec, folder: Path, *_: object) -> Lab:
            self.done.append(("up", spec))
            self.placement = Placement(spec, 0, folder)
            return Lab(self.placement)

        def adopt(folder: Path, **_: object) -> None:
            assert not {"UPGRADER_KUBECONFIG", "UPGRADER_CONTEXT"} & os.environ.keys()
            self.done.append(("adopt", folder))

        def fill(_: Lab, objects: Any) -> Filled:
            self.done.append(("fill", [item["kind"] for item in objects]))
            self.filled = self.completes
            return Filled(("Error from server: few-replicas is invalid",), ("DaemonSet shop/log",))

        monkeypatch.setattr("upgrader.lab.release_hosts.asked", lambda: lambda: "no network in unit tests")
        monkeypatch.setattr(Lab, "up", up)
        monkeypatch.setattr(Lab, "fill", fill)
        monkeypatch.setattr("upgrader.lab.existing_labs.find", lambda _: self.placement)
        monkeypatch.setattr("upgrader.lab.lifecycle.is_filled", lambda _: self.filled)
        monkeypatch.setattr(Lab, "status", lambda _: [])
        monkeypatch.setattr("upgrader.cli.adopt.adopt_cluster", adopt)

    @property
    def spec(self) -> LabSpec:
        """The last lab's."""
        return [what for name, what in self.done if name == "up"][-1]  # type: ignore[no-any-return]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """No lab is made on this machine."""
    return Made(monkeypatch)


def up_like(tmp_path: Path, *more: str, **changes: Any) -> Any:
    """`lab up --like` with the copy of the examples' cluster, or of one that differs."""
    file = tmp_path / "copy.yaml"
    file.write_text(copy_text(copied(**changes)))
    return CliRunner().invoke(cli, ["-C", str(tmp_path), "lab", "up", "--like", str(file), *more])


def test_a_lab_is_like_an_adopted_cluster(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its version and size, is adopted itself, whatever kubeconfig is chosen for other commands, and then gets
    the objects; what a lab can't have is listed.
    """
    monkeypatch.setenv("UPGRADER_KUBECONFIG", "/of/production")
    done = up_like(tmp_path, values={"kube-apiserver": {"extraArgs": {"oidc-client-id": "x"}}})
    assert done.exception is None, done
    assert os.environ["UPGRADER_KUBECONFIG"] == "/of/production"
    assert (made.spec.controllers, made.spec.workers, made.spec.kubernetes) == (1, 2, "v1.36.3")
    assert [name for name, _ in made.done] == ["up", "adopt", "fill"]
    assert made.done[1][1] == tmp_path / ".lab" / "demo"
    assert made.done[2][1][0] == "Namespace" and "Deployment" in made.done[2][1]
    assert "not in the lab: kube-apiserver --oidc-client-id: a lab can't have it" in done.stderr
    assert "MutatingWebhookConfiguration" in made.done[2][1] and "Webhook" not in done.stderr
    assert "refused in the lab: Error from server: few-replicas is invalid" in done.stderr
    assert "not Ready in the lab: DaemonSet shop/log" in done.stderr and "demo plan" in done.stderr


def test_a_lab_like_kubeadms_cluster_is_left_as_kubeadm_made_it(made: Made, tmp_path: Path) -> None:
    """So that its adoption can be tried, too."""
    done = up_like(tmp_path, adopted=False)
    assert [name for name, _ in made.done] == ["up", "fill"] and "demo adopt" in done.stderr


def test_a_lab_that_is_started_again_stays_as_it_is(made: Made, tmp_path: Path) -> None:
    """With its file or without one: what was done to it since isn't overwritten. One that was interrupted before it had
    everything gets it with the next start, and needs the file.
    """
    made.completes = False
    up_like(tmp_path)
    first = made.spec
    refused = CliRunner().invoke(cli, ["-C", str(tmp_path), "lab", "up"]).exception
    assert isinstance(refused, UsageError) and "demo --like FILE" in refused.remedy
    made.completes = True
    up_like(tmp_path)
    assert [name for name, _ in made.done] == ["up", "adopt", "fill", "up", "up", "adopt", "fill"]
    made.done.clear()
    up_like(tmp_path)
    assert CliRunner().invoke(cli, ["-C", str(tmp_path), "lab", "up"]).exception is None
    assert made.done == [("up", first)] * 2


def test_options_win_over_the_copy(made: Made, tmp_path: Path) -> None:
    """Also where they say what is the default; without the copy, the defaults stay."""
    up_like(tmp_path, "--workers", "0", "--kubernetes", "v1.37.1")
    assert (made.spec.controllers, made.spec.workers, made.spec.kubernetes) == (1, 0, "v1.37.1")
    made.placement = None
    assert CliRunner().invoke(cli, ["-C", str(tmp_path), "lab", "up"]).exception is None
    assert (made.spec.workers, made.spec.kubernetes, made.spec.like) == (0, "v1.36.3", "")
    assert made.done[-1][0] == "up"


def test_a_copy_that_no_lab_can_be_like_makes_none(made: Made, tmp_path: Path) -> None:
    """More controllers than a lab can have, options that don't fit, a damaged file: each is refused by its reason."""
    controllers = [worker(f"cp-{number}", {"node-role.kubernetes.io/control-plane": ""}) for number in range(8)]
    refused = up_like(tmp_path, nodes=(*controllers, *NODES)).exception
    assert isinstance(refused, UsageError) and "9 controllers, but a lab can have at most 7" in refused.message
    refused = up_like(tmp_path, "--hardened").exception
    assert isinstance(refused, UsageError) and "--like can't be combined with --hardened" in refused.message
    file = tmp_path / "copy.yaml"
    file.write_text(file.read_text()[:-1000])
    refused = CliRunner().invoke(cli, ["lab", "up", "--like", str(file)]).exception
    assert isinstance(refused, ConfigError) and "copy.yaml:" in refused.message
    assert made.done == []
