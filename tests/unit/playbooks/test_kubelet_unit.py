"""The kubelet's unit: its flags, and what another kubelet says of them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from ansible.module_utils import kubelet_unit
from ansible.module_utils.kubelet_unit import Unit, complaint, trial_command, without_flags

MAX_PODS = "invalid configuration: maxPods (--max-pods) -1 must not be a negative number"
FAILED = 'E1123 12:44:43 1183 run.go:72] "command failed" err='
PAUSE = "pod-infra-container-image"


def said(stderr: str) -> str:
    """What is made of a trial's last words."""
    answer: str = complaint(subprocess.CompletedProcess([], 1, "", stderr))
    return answer


def test_a_kubelet_that_only_dislikes_the_trial_is_content() -> None:
    """The one complaint that the trial provokes is not the node's."""
    assert said(f'{FAILED}"failed to validate kubelet configuration, error: {MAX_PODS}, path: &TypeMeta"') == ""


@pytest.mark.parametrize(
    ("stderr", "named"),
    [
        (f'{FAILED}"failed to parse kubelet flag: unknown flag: --bogus"', "unknown flag: --bogus"),
        (
            f'{FAILED}"failed to validate kubelet configuration, error: [{MAX_PODS}, no cgroup v1], path: &T"',
            "no cgroup v1",
        ),
        ("panic: failed to merge, error: unrecognized feature gate: Nope\n\ngoroutine 1", "feature gate: Nope"),
        ("Error: accepts no arguments\n", "accepts no arguments"),
        ("Failed to start transient service unit: Access denied\n", "Access denied"),
        ("", "nothing"),
        (f'{FAILED}"failed to validate kubelet configuration, error: something, path: &T"', "something"),
    ],
)
def test_every_other_answer_is_a_complaint(stderr: str, named: str) -> None:
    """Whatever else a trial ends with is named; silence is no consent."""
    assert named in said(stderr)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1 --{PAUSE}=registry.k8s.io/pause:3.10"\n', "--node-ip=10.0.0.1"),
        (f'KUBELET_KUBEADM_ARGS="--{PAUSE}=pause:3.10 --node-ip=10.0.0.1"\n', " --node-ip=10.0.0.1"),
        (f'KUBELET_KUBEADM_ARGS="--{PAUSE} pause:3.10 --node-ip=10.0.0.1"\n', " --node-ip=10.0.0.1"),
        (f'KUBELET_KUBEADM_ARGS="--{PAUSE}=pause:3.10"\n', ""),
    ],
)
def test_removed_flags_go_with_their_values(text: str, left: str) -> None:
    """Of an environment file everything else stays, to the letter."""
    assert without_flags(text, [PAUSE]) == f'KUBELET_KUBEADM_ARGS="{left}"\n'


@pytest.mark.parametrize("text", [f'A="--my-{PAUSE}=x"\n', f'A="--{PAUSE}s=x"\n', 'A="--node-ip=1"\n'])
def test_other_flags_stay(text: str) -> None:
    """A flag whose name only contains that of a removed one is another flag."""
    assert without_flags(text, [PAUSE]) == text


def test_systemd_reads_the_flags_itself() -> None:
    """Variables and environment files are systemd's to read, in the order of the unit; one file is another one."""
    files = (("/var/lib/kubelet/kubeadm-flags.env", True), ("/etc/default/kubelet", True), ("/etc/needed", False))
    unit = Unit("/usr/bin/kubelet", ("$ARGS",), ("ARGS=--config=/c.yaml",), files, ("/u.service",), 1, 0.0)
    command = trial_command(unit, "/new/kubelet", {"/var/lib/kubelet/kubeadm-flags.env": "/run/0.env"})
    given = [word.partition("=")[2] for word in command if word.startswith("--property=EnvironmentFile")]
    assert given == [
        "EnvironmentFile=-/run/0.env",
        "EnvironmentFile=-/etc/default/kubelet",
        "EnvironmentFile=/etc/needed",
    ]
    assert command[-3:] == ["/new/kubelet", "$ARGS", "--max-pods=-1"]
    assert unit.files() == sorted(["/c.yaml", "/u.service", *(path for path, _ in files)])


def test_a_unit_that_starts_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a script starts the kubelet, its flags aren't known, and are not guessed."""
    answers = {
        "Service": [[["/bin/sh", ["/bin/sh", "-c", "kubelet"]]], [], [], 1, 0, "process"],
        "Unit": ["/u.service", []],
    }
    monkeypatch.setattr(kubelet_unit, "_properties", lambda unit, interface, *names: answers[interface.split(".")[-1]])
    with pytest.raises(kubelet_unit.UnitError, match="not a program named kubelet"):
        kubelet_unit.read_unit("kubelet.service")


def test_another_configuration_lies_over_the_one_of_the_unit() -> None:
    """The trial reads the planned file where the kubelet will: paths in it are relative to its folder."""
    unit = Unit("/usr/bin/kubelet", ("--config=/c.yaml",), (), (), ("/u.service",), 1, 0.0)
    command = trial_command(unit, "/new/kubelet", {}, {"/c.yaml": "/run/trial/configuration.yaml"})
    assert "--property=BindReadOnlyPaths=/run/trial/configuration.yaml:/c.yaml" in command


def test_fields_that_the_kubelet_does_not_know_are_named() -> None:
    """It would start without them; what a node's own file has beside ours is not ours to refuse."""
    fields = {"maxPodz": 5, "authentication": {"webhoook": {}}, "reservedMemory": [{"numa": 0}], "maxPods": 5}
    text = (
        '"Using lenient decoding as strict decoding failed" err="strict decoding error: unknown field '
        '\\"authentication.webhoook\\", unknown field \\"maxPodz\\", unknown field \\"ofTheNode\\", '
        'unknown field \\"reservedMemory[0].numa\\""'
    )
    ended = subprocess.CompletedProcess([], 1, "", text)
    assert kubelet_unit.unknown_fields(ended, fields) == [
        "authentication.webhoook",
        "maxPodz",
        "reservedMemory[0].numa",
    ]
    assert kubelet_unit.unknown_fields(subprocess.CompletedProcess([], 1, "", ""), fields) == []


@pytest.mark.parametrize(("hours", "current"), [(-2, True), (0, False), (24, True)])
def test_file_of_a_time_to_come_says_nothing(tmp_path: Path, hours: int, current: bool) -> None:
    """A node whose clock was ahead when a file was written, or that got it with such a time: no restart would ever be
    after it, and a new kubelet, and the old one that is put back, would be waited for in vain.
    """
    file, now = tmp_path / "config.yaml", time.time()
    file.touch()
    os.utime(file, (now + hours * 3600, now + hours * 3600))
    unit = Unit(os.readlink("/proc/self/exe"), (f"--config={file}",), (), (), (), os.getpid(), now - 3600)
    assert unit.current() is current
