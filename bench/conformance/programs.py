"""Kubernetes' own test programs, built from its Go module, and cached by version."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from upgrader.lab.binaries import version_flags
from upgrader.lab.build_cache import built, cache_root, content_hash
from upgrader.lab.golang import Module, build_module, go_command
from upgrader.lab.progress_port import LabProgress

__all__ = ["Programs", "programs"]

_SOURCES = Path(__file__).with_name("module")
_KUBERNETES = "k8s.io/kubernetes"
_DATA = {
    "localhost.crt": "test/images/agnhost/porter/localhost.crt",
    "localhost.key": "test/images/agnhost/porter/localhost.key",
    "nautilus": "test/images/nautilus/html",
    "kitten": "test/images/kitten/html",
}
"""What the images of the tests have beside their program: name in the result → path in the module."""


_PROGRAMS = {
    "agnhost": f"{_KUBERNETES}/test/images/agnhost",
    "ginkgo": "github.com/onsi/ginkgo/v2/ginkgo",
    "nnp": f"{_KUBERNETES}/test/images/nonewprivs",
    "sample-apiserver": "k8s.io/sample-apiserver",
}
_TESTS = {"e2e.test": f"{_KUBERNETES}/test/e2e", "upgrades.test": "./upgrades"}


@dataclass(frozen=True)
class Programs:
    """The folder with `e2e.test`, `upgrades.test`, `ginkgo`, what the tests' images run, and their data."""

    folder: Path

    @property
    def e2e(self) -> Path:
        """All of upstream's end-to-end tests."""
        return self.folder / "e2e.test"

    @property
    def upgrades(self) -> Path:
        """Upstream's upgrade tests, with a disturbance from outside."""
        return self.folder / "upgrades.test"

    @property
    def ginkgo(self) -> Path:
        """Runs the specs of a test program in several processes."""
        return self.folder / "ginkgo"


def programs(version: str, progress: LabProgress) -> Programs:
    """Those of a version of Kubernetes: from the cache, or built in a few minutes."""
    module = Module(
        name="Kubernetes' tests",
        path=_KUBERNETES,
        version=version,
        programs=_PROGRAMS,
        tests=_TESTS,
        sources=_SOURCES,
        ldflags=version_flags(version),
        staging=True,
        seconds=300,
    )

    def build(target: Path) -> None:
        go = go_command(progress)
        build_module(module, target, go, progress)
        (target / "nnp").chmod(0o4755)  # it tells its effective user, and a test that no privilege came with it
        command = [str(go), "list", "-m", "-f", "{{.Dir}}", _KUBERNETES]
        listed = subprocess.run(command, cwd=target.parent / "module", capture_output=True, text=True, check=True)
        for name, inside in _DATA.items():
            source = Path(listed.stdout.strip()) / inside
            if source.is_dir():
                shutil.copytree(source, target / name, copy_function=shutil.copyfile)
            else:
                shutil.copyfile(source, target / name)

    key = content_hash([_SOURCES], repr((_PROGRAMS, _TESTS, _DATA)))
    return Programs(built(cache_root() / "conformance" / f"{version}-{key}", build))
