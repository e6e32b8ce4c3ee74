"""A machine that runs the jobs of a release: with the packages that they install, and no network but the registry."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import yaml

from testkit.bare_machine import BareMachine
from testkit.certificates import Authority
from testkit.console_page import Step
from upgrader.adapters.helm import find_helm
from upgrader.lab.private_registry import registry_program
from upgrader.lab.progress_port import Silent

__all__ = ["ReleaseMachine", "Script", "github_scripts", "gitlab_scripts", "succeeded"]

_USER, _PASSWORD = "release", "s3cret"
"""Of the registry."""
_SHELL = "bash --noprofile --norc -eo pipefail"
_CONFIG = "etc/registry"
_STORAGE = "var/lib/registry"
_INSTALLS = re.compile(r"apt-get install -y --no-install-recommends (.+)")
_ELSEWHERE = ("apt-get ", "go install ")
"""Prefixes of commands that download something: the machine has it already."""
_BEGIN = f"""
update-ca-certificates
docker-registry serve /{_CONFIG}/config.yml &
for i in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/443) && break; sleep 0.1; done
"""


@dataclass(frozen=True)
class Script:
    """What the runner gives a shell: a script, and variables, whose values are words of a shell."""

    text: str
    variables: Mapping[str, str]


def github_scripts(workflow: Mapping[str, Any], job: str, repository: str) -> list[Script]:
    """The scripts of a job's steps, without actions; each step can read the outputs of earlier ones."""
    found = workflow["jobs"][job]
    outputs = {"GITHUB_OUTPUT": "/root/outputs", "GITHUB_ACTOR": _USER}
    return [
        Script(
            step["run"],
            {
                name: _word(text, repository)
                for name, text in {**outputs, **workflow["env"], **step.get("env", {})}.items()
            },
        )
        for step in found["steps"]
        if "run" in step and not step["run"].startswith(_ELSEWHERE)
    ]


def _word(text: str, repository: str) -> str:
    """A value as a shell's word, with the value that GitHub substitutes for expressions."""
    text = text.replace("${{ github.repository }}", repository).replace("${{ github.token }}", _PASSWORD)
    if output := re.fullmatch(r"\$\{\{ steps\.push\.outputs\.([a-z-]+) \}\}", text):
        return f'"$(sed -n "s/^{output[1]}=//p" /root/outputs)"'
    assert "${{" not in text, f"unknown expression: {text}"
    return shlex.quote(text)


def gitlab_scripts(pipeline: Mapping[str, Any], jobs: Sequence[str], registry: str) -> list[Script]:
    """The script of each job."""
    given = {
        "CI_REGISTRY": registry.partition("/")[0],
        "CI_REGISTRY_IMAGE": registry,
        "CI_REGISTRY_USER": _USER,
        "CI_REGISTRY_PASSWORD": _PASSWORD,
    }
    return [
        Script(
            "\n".join(line for line in pipeline[job]["script"] if not line.startswith(_ELSEWHERE)),
            {name: shlex.quote(text) for name, text in {**given, **pipeline[job].get("variables", {})}.items()},
        )
        for job in jobs
    ]


@dataclass(frozen=True)
class ReleaseMachine:
    """A Debian root file system, whose only network is its own loopback: the registry listens there, with TLS."""

    machine: BareMachine
    programs: Mapping[str, Path]

    @classmethod
    def made(cls, folder: Path, commands: str, host: str, cosign: Path) -> ReleaseMachine:
        """In the new `folder`. `commands` install its packages; `host` is the registry's name, on port 443."""
        folder.mkdir()
        packages = folder / "packages.txt"
        packages.write_text("\n".join(sorted({name for line in _INSTALLS.findall(commands) for name in line.split()})))
        machine = BareMachine.made(folder / "root", packages=packages)
        authority = Authority(folder / "ca")
        authority.issue(folder / "server", host, hosts=(host,), hours=(-1, 24))
        trusted = machine.root / "usr/local/share/ca-certificates/registry.crt"
        shutil.copyfile(folder / "ca.pem", trusted)
        with (machine.root / "etc/hosts").open("a") as hosts:
            hosts.write(f"127.0.0.1 {host}\n")
        _write_registry(machine.root, folder)
        (machine.root / "root/work").mkdir()
        programs = {
            "/usr/local/bin/cosign": cosign,
            "/usr/local/bin/docker-registry": registry_program(Silent()) / "usr/bin/docker-registry",
            "/usr/local/bin/helm": find_helm().resolve(),
        }
        return cls(machine, programs)

    def bring(self, folder: Path, name: str) -> None:
        """Put a release into a job's folder, as the artifact of an earlier job."""
        shutil.copytree(folder, self.work / name, copy_function=os.link)

    @property
    def work(self) -> Path:
        """The folder that jobs begin in."""
        return self.machine.root / "root/work"

    @property
    def registry(self) -> Path:
        """The registry's storage."""
        return self.machine.root / _STORAGE / "docker/registry/v2"

    def scripts(self, scripts: Sequence[Script], variables: Mapping[str, str]) -> None:
        """Run scripts one after another. Raises AssertionError, with the whole output, at the first that fails."""
        commands = []
        for number, script in enumerate(scripts):
            file = self.machine.root / f"root/script-{number}"
            file.write_text(script.text)
            given = {**{name: shlex.quote(text) for name, text in variables.items()}, **script.variables}
            words = " ".join(f"{name}={word}" for name, word in given.items())
            commands.append(f"{words} {_SHELL} /root/script-{number}")
        for script, step in zip(scripts, self.run(commands), strict=True):
            assert succeeded(step), "\n".join([script.text, "---", *step.lines])

    def run(self, commands: Sequence[str]) -> list[Step]:
        """Run commands beside the registry, in the jobs' folder; all of them, even if one fails."""
        here = [f"cd /root/work; {command}" for command in commands]
        return self.machine.run(here, mounted=self.programs, before=_BEGIN)


def succeeded(step: Step) -> bool:
    """Whether a command ended with exit code 0."""
    return not (step.lines and step.lines[-1].startswith("(exit code"))


def _write_registry(root: Path, keys: Path) -> None:
    """Its configuration, certificate and the only user."""
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": f"/{_STORAGE}"}},
        "http": {
            "addr": "127.0.0.1:443",
            "tls": {"certificate": f"/{_CONFIG}/server.pem", "key": f"/{_CONFIG}/server.key"},
        },
        "auth": {"htpasswd": {"realm": "test", "path": f"/{_CONFIG}/htpasswd"}},
    }
    hashed = bcrypt.hashpw(_PASSWORD.encode(), bcrypt.gensalt(rounds=4)).decode()
    (root / _CONFIG).mkdir()
    (root / _CONFIG / "config.yml").write_text(yaml.safe_dump(config))
    (root / _CONFIG / "htpasswd").write_text(f"{_USER}:{hashed}\n")
    for name in ("server.pem", "server.key"):
        shutil.copyfile(keys / name, root / _CONFIG / name)
