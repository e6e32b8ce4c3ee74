"""The agent for HAProxy as one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from upgrader.lab.haproxy_agent import write_haproxy_agent


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder."""
    write_haproxy_agent(tmp_path / "made")
    return tmp_path / "made"


def test_the_same_sources_make_the_same_bytes(made: Path, tmp_path: Path) -> None:
    """Whenever it is made."""
    write_haproxy_agent(tmp_path / "again")
    names = {path.name for path in made.iterdir()}
    assert names == {"haproxy-agent.pyz", "haproxy-agent.service", "haproxy-agent.yaml"}
    assert all((made / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in names)


def test_it_starts_from_that_file_alone(made: Path, tmp_path: Path) -> None:
    """Of libraries it loads aiohttp, and PyYAML where it reads a kubeconfig: Debian has both, and a load balancer needs
    no more.
    """
    command = [sys.executable, str(made / "haproxy-agent.pyz"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "-haproxy.socket FILE" in done.stdout
    script = (
        f"import json, sys; sys.path.insert(0, {str(made / 'haproxy-agent.pyz')!r});"
        "import upgrader.in_cluster.guard.commands.haproxy_agent as found;"
        "print(json.dumps([found.__file__, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    place, modules = json.loads(done.stdout)
    assert place.startswith(str(made)) and "aiohttp" in modules
    assert not {"cryptography", "kubernetes", "prometheus_client", "pydantic"} & set(modules)


def test_a_kubeconfig_that_is_not_there_is_told(made: Path, tmp_path: Path) -> None:
    """Exit code 2, without a traceback."""
    flag = f"-kubernetes.config-file={tmp_path / 'nothing'}"
    command = [sys.executable, str(made / "haproxy-agent.pyz"), flag]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith(f"guard haproxy-agent: {tmp_path / 'nothing'} can't be used")


def test_its_rights(made: Path) -> None:
    """Nodes alone; the contract test gives it the same."""
    role, binding = yaml.safe_load_all((made / "haproxy-agent.yaml").read_text())
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]}]
    assert binding["subjects"][0]["name"] == "haproxy-agent"
