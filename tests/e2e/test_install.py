"""`upgrader` on a machine that has `dist/` and no checkout: the transcript in install.md is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testkit.bare_machine import BareMachine
from testkit.console_page import console_block, differences
from upgrader.adapters.helm import find_helm
from upgrader.lab.private_registry import registry_program
from upgrader.lab.progress_port import Silent

PAGE = Path(__file__).with_name("install.md")
REGISTRY = {
    "version": 0.1,
    "log": {"level": "error"},
    "storage": {"filesystem": {"rootdirectory": "/tmp/registry"}},
    "http": {"addr": "127.0.0.1:5000"},
}
CHARTS = Path(__file__).parents[2] / "charts"
VALUES = {
    "kube-apiserver": CHARTS / "kube-apiserver/ci/one-controller-values.yaml",
    "kubernetes": CHARTS / "kubernetes/ci/kubeadm-values.yaml",
}


@pytest.fixture
def machine(tmp_path: Path) -> BareMachine:
    """It, with a cluster folder as `init` and `adopt` would have written it."""
    made = BareMachine.made(tmp_path / "machine")
    folder = made.root / "root/my-cluster"
    (folder / "values").mkdir(parents=True)
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    (folder / "hosts.yml").write_text("controllers: {hosts: {controller-1: {ansible_host: 192.0.2.11}}}\n")
    for name, values in VALUES.items():
        (folder / f"values/{name}.yaml").write_text(values.read_text())
    return made


def test_the_transcript_is_what_happens(dist: Path, machine: BareMachine, tmp_path: Path) -> None:
    """Checksums, an offline installation, a check that wants an image, the push to a registry, a check that passes, and
    a chart from the registry: every command of the page, with the output that is there, and nothing but `dist/`."""
    (tmp_path / "registry.yml").write_text(yaml.safe_dump(REGISTRY))
    expected = console_block(PAGE.read_text(), "An installation without a network: a transcript")
    seen = machine.run(
        [step.command for step in expected],
        mounted={
            "/root/dist": dist,
            "/usr/local/bin/helm": find_helm().resolve(),
            "/usr/local/bin/docker-registry": registry_program(Silent()) / "usr/bin/docker-registry",
            "/etc/registry.yml": tmp_path / "registry.yml",
        },
        before="docker-registry serve /etc/registry.yml & "
        "for i in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/5000) && break; sleep 0.1; done",
    )
    assert not (wrong := differences(expected, seen)), wrong
