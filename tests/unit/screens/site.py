"""A cluster folder whose cluster is in memory, and the terminal of whoever works on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.recovery import FakeRecovery
from testkit.terminal import PROMPT, Shown, this_process_on_terminal
from tests.unit.engine.killing import FROM, TO, World
from tests.unit.gates.builders import add_deployment, add_node, add_pod, running
from upgrader.app import existing_run, recovery, trial_check, upgrade
from upgrader.app.wiring import Session
from upgrader.cli import main as entry
from upgrader.engine.locks.fence import Fence
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.image_settings import ImageSettings
from upgrader.model.observed import Observed
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import AvailabilitySettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Hosts, KubeObject, Recovery, Tools
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.pipeline import RecoverTools
from upgrader.steps.plan import Plan
from upgrader.steps.trial.trial import Trial

__all__ = ["FOLDER", "API_SERVER", "Site"]

FOLDER = "my-cluster"
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}
API_SERVER = "kube-apiserver"
OLD_POD, NEW_POD = "kube-apiserver-7d9c6b5f4-q8x2k", "kube-apiserver-6c9f7d5b8-x2x7q"


def _manifest(version: KubernetesVersion, *flags: str) -> dict[str, Any]:
    """The release kube-apiserver, cut down to what is looked at."""
    image = f"registry.k8s.io/kube-apiserver:{version}"
    container = {"name": API_SERVER, "image": image, "args": list(flags)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": API_SERVER, "namespace": "kube-system"},
        "spec": {"replicas": 1, "template": {"spec": {"nodeSelector": CONTROL_PLANE, "containers": [container]}}},
    }


class SiteSession(Session):
    """A session on it; of the checks, only some families are made."""

    families: Collection[str] = ()
    also: tuple[Finding, ...] = ()
    seen: Diagnosis | None = None

    def preflight(self, observed: Observed, plan: Plan, families: Collection[str] = ()) -> tuple[Finding, ...]:
        found = super().preflight(observed, plan, self.families) if self.families else ()
        return (*found, *self.also)

    def recovery(self, admitted: Callable[[], bool]) -> Recovery:
        return FakeRecovery(self.tools.kube)  # type: ignore[arg-type]

    def recover_tools(self, only: Sequence[str] = (), admitted: Callable[[], bool] = lambda: False) -> RecoverTools:
        tools, seen = super().recover_tools(only, admitted), self.seen
        return tools if seen is None else replace(tools, examine=lambda: seen)


def _labelled(node: KubeObject | None, labels: dict[str, str]) -> KubeObject:
    assert node is not None
    return {**node, "metadata": {**node["metadata"], "labels": labels}}


@dataclass
class Site:
    """`my-cluster` in the current folder, one controller at v1.36.3; each fault is put into its parts."""

    home: Path
    patch: pytest.MonkeyPatch
    flags: tuple[str, ...] = ()
    """Of the kube-apiserver that is planned."""
    hosts: Hosts | None = None
    settings: Settings = field(init=False)
    workers: tuple[Host, ...] = ()

    def __post_init__(self) -> None:
        self.folder = self.home / FOLDER
        self.folder.mkdir()
        (self.folder / "upgrader.yaml").write_text(f"kubernetesVersion: {TO}\n")
        (self.folder / "hosts.yml").write_text("controllers: {hosts: {controller-1: {ansible_host: 10.0.0.2}}}\n")
        self.world = World(self.home / "unused")
        self.world.helm.install(
            API_SERVER, self.world.helm.render(ReleaseSpec(API_SERVER, "", Path(), _manifest(FROM)))
        )
        self._healthy()
        self.settings = Settings(
            self.folder,
            TO,
            self.folder / "kubeconfig",
            self.folder / "hosts.yml",
            (ReleaseSettings(API_SERVER, "kube-system", self.folder / "chart", _manifest(TO)),),
            availability=AvailabilitySettings(0.0),
            images=ImageSettings(pull=False),
        )
        self.world.hosts.commands |= {"sh": CommandResult(0, "", ""), "id": CommandResult(0, "0\n", "")}
        self.patch.chdir(self.home)
        self.patch.setattr(Trial, "run", lambda *_: ())
        self.patch.setattr(SiteSession, "families", ())
        self.patch.setattr(SiteSession, "also", ())
        self.patch.setattr(SiteSession, "seen", None)
        for module in (upgrade, trial_check, existing_run, recovery):
            self.patch.setattr(module, "open_session", self._opened)

    def _healthy(self) -> None:
        kube = self.world.kube
        kube.put(NODES, _labelled(kube.get(NODES, "controller-1"), CONTROL_PLANE))
        kube.raw_answers["https://10.0.0.2:6443/readyz"] = "ok"
        add_deployment(kube, API_SERVER)
        add_pod(
            kube,
            API_SERVER,
            running(API_SERVER, image=f"registry.k8s.io/kube-apiserver:{FROM}"),
            name=OLD_POD,
            priority_class="system-node-critical",
            host_ip="10.0.0.2",
        )

    def worker(self, name: str) -> None:
        """Add a node beside the controller."""
        add_node(self.world.kube, name)
        node = dict(self.world.kube.get(NODES, name) or {})
        info = {"kubeletVersion": str(FROM), "architecture": "amd64"}
        node["status"] = {**node["status"], "nodeInfo": info}
        self.world.kube.put(NODES, node)
        self.workers = (*self.workers, Host(name, "10.0.0.3"))

    def checks(self, *families: str, also: tuple[Finding, ...] = ()) -> None:
        """Let these be made for real, and others find something."""
        self.patch.setattr(SiteSession, "families", families)
        self.patch.setattr(SiteSession, "also", also)

    @property
    def release(self) -> ReleaseSettings:
        """The only one of the pipeline."""
        (release,) = self.settings.pipeline
        assert isinstance(release, ReleaseSettings)
        return release

    def values(self, text: str) -> Path:
        """The file of its values."""
        file = self.folder / f"values/{API_SERVER}.yaml"
        file.parent.mkdir()
        file.write_text(text)
        return file

    def set(self, **settings: Any) -> None:
        """Change what the folder's files say."""
        self.settings = replace(self.settings, **settings)

    @contextmanager
    def _opened(
        self, _folder: Path, target: KubernetesVersion | None = None, _kubeconfig: Path | None = None
    ) -> Iterator[Session]:
        world = self.world
        host = Host("controller-1", "10.0.0.2")
        cluster = Cluster(self.folder, self.settings.kubeconfig, "demo", self.settings.inventory, (host,), self.workers)
        tools = Tools(world.helm, world.kube, world.playbooks, world.clock, self.hosts or world.hosts)
        settings = replace(self.settings, target=target or self.settings.target)
        yield SiteSession(settings, cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock))

    def types(self, command: str) -> Shown:
        """Run `upgrader …` in this process, and return what is seen then."""
        with this_process_on_terminal() as terminal, self.patch.context() as patch:
            terminal.write(f"{PROMPT}{command}\n")
            patch.setattr(sys, "argv", command.split())
            with pytest.raises(SystemExit) as ended:
                entry.main()
            terminal.write(PROMPT)
        code = ended.value.code
        return Shown(command, code if isinstance(code, int) else 1, terminal.lines)
