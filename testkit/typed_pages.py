"""A page's commands, typed on this machine against a lab, with the files, kubeconfig and programs of a user."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from testkit.command import REPOSITORY
from testkit.console_page import Step, console_block, differences, one_after_another, printed
from testkit.lab_cluster import LabCluster
from upgrader.adapters.helm import find_helm
from upgrader.lab.binaries import kubectl
from upgrader.lab.lifecycle import Lab

__all__ = ["TypedPage"]


class TypedPage:
    """A page, and a folder with its files: `NAME.yaml`, followed by its YAML in the page."""

    def __init__(self, page: Path, cluster: LabCluster, folder: Path) -> None:
        self._text, self._folder = page.read_text(), folder
        folder.mkdir(exist_ok=True)
        programs = folder / "programs"
        programs.mkdir()
        (folder / "charts").symlink_to(REPOSITORY / "charts")
        (programs / "helm").symlink_to(find_helm().resolve())
        (programs / "kubectl").symlink_to(kubectl(Lab.find(cluster.name).placement.spec.kubernetes).resolve())
        command = [sys.executable, "-m", "upgrader", "-C", str(cluster.folder)]
        (programs / "upgrader").write_text(
            f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(REPOSITORY))} exec {shlex.join(command)} "$@"\n'
        )
        (programs / "upgrader").chmod(0o755)
        self._environment = {
            "HOME": str(folder),
            "KUBECONFIG": str(cluster.folder / "kubeconfig"),
            "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
        }
        for name, content in re.findall(
            r"^`([\w-]+\.yaml)`.*?^```yaml\n(.*?)^```", self._text, re.MULTILINE | re.DOTALL
        ):
            (folder / name).write_text(content)

    def follow(self, heading: str, *, seconds: float = 900.0) -> None:
        """Type the commands below a heading; raises AssertionError with the differences from the page."""
        expected = console_block(self._text, heading)
        seen = self._typed([step.command for step in expected], seconds)
        for step in seen:  # for the page, when it is written
            sys.stdout.write("\n".join([f"$ {step.command}", *step.lines, ""]))
        assert not (wrong := differences(expected, seen)), wrong

    def _typed(self, commands: list[str], seconds: float) -> list[Step]:
        done = subprocess.run(
            ["bash", "-c", "\n".join(one_after_another(commands))],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        return printed(commands, done.stdout)
