"""Where a kubelet that was restarted is asked whether it is healthy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import kubelet_unit
from ansible.module_utils.kubelet_healthz import healthz_url
from ansible.module_utils.kubelet_unit import Unit

from tests.unit.playbooks.node_role import module


def unit(folder: Path, configuration: str, flags: str = "") -> Any:
    """As kubeadm makes it."""
    file, environment = folder / "config.yaml", folder / "kubeadm-flags.env"
    file.write_text(configuration)
    environment.write_text(f'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1 {flags}"\n')
    variables = (f"KUBELET_CONFIG_ARGS=--config={file}",)
    arguments = ("$KUBELET_CONFIG_ARGS", "$KUBELET_KUBEADM_ARGS")
    return Unit("/usr/bin/kubelet", arguments, variables, ((str(environment), True),), ("/u.service",), 1, 0.0)


@pytest.mark.parametrize(
    ("configuration", "flags", "url"),
    [
        ("healthzBindAddress: 127.0.0.1\nhealthzPort: 10248\n", "", "http://127.0.0.1:10248/healthz"),
        ("kind: KubeletConfiguration\n", "", "http://127.0.0.1:10248/healthz"),
        ("healthzPort: 20248 # another one\n", "", "http://127.0.0.1:20248/healthz"),
        ('healthzBindAddress: "::1"\n', "", "http://[::1]:10248/healthz"),
        ("healthzBindAddress: '::'\n", "", "http://[::1]:10248/healthz"),
        ("healthzBindAddress: 0.0.0.0\nhealthzPort: null\n", "", "http://127.0.0.1:10248/healthz"),
        ("healthzBindAddress: 10.0.0.1\n", "", "http://10.0.0.1:10248/healthz"),
        ('{"healthzPort": 20248,"healthzBindAddress": "::1"}', "", "http://[::1]:20248/healthz"),
        ("{", "", "http://127.0.0.1:10248/healthz"),
        ("healthzPort: 20248\n", "--healthz-port=30248 --healthz-bind-address ::1", "http://[::1]:30248/healthz"),
        ("healthzPort: 0\n", "", ""),
        ("evictionHard:\n  healthzPort: 1\n", "", "http://127.0.0.1:10248/healthz"),
    ],
)
def test_kubelet_is_asked_where_it_listens(tmp_path: Path, configuration: str, flags: str, url: str) -> None:
    """Another port, another address, IPv6 alone, none at all; flags before the file, as the kubelet has it."""
    assert healthz_url(unit(tmp_path, configuration, flags)) == url


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """They say nothing, unless systemd itself couldn't start the kubelet without."""
    made = unit(tmp_path, "healthzPort: 20248\n")
    for file in tmp_path.iterdir():
        file.unlink()
    assert healthz_url(made) == "http://127.0.0.1:10248/healthz"
    with pytest.raises(FileNotFoundError):
        healthz_url(made._replace(environment_files=((str(tmp_path / "needed"), False),)))


def test_kubelet_that_serves_no_healthz_is_healthy_once_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With port 0 there is nothing to ask: its node would be put back, in vain, and stay cordoned."""
    monkeypatch.setattr(Unit, "current", lambda self: True)
    monkeypatch.setattr(kubelet_unit, "read_unit", lambda name: unit(tmp_path, "healthzPort: 0\n"))
    assert "seconds" in module("kubelet_health", seconds=0)
