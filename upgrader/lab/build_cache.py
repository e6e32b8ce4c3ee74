"""Results that are built once for a machine: `${XDG_CACHE_HOME:-~/.cache}/upgrader/KIND/KEY`.

A result is built beside its final path and renamed, so that an existing path is complete, even after an interrupted
build. A file lock makes a second builder of the same result wait for the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from upgrader.built_in_files import lab_folder

__all__ = ["built", "cache_root", "content_hash", "own_sources", "remove_tree"]


def cache_root() -> Path:
    """The cache folder; it need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "upgrader"


def own_sources(package: str) -> Path:
    """The modules of a package of `upgrader`, such as `in_cluster/guard`, as images contain them.

    Programs that run in a cluster need libraries that `upgrader` doesn't: a wheel contains them as part of the lab's
    sources, and not as modules.
    """
    packed = lab_folder() / package
    return packed if packed.exists() else Path(__file__).resolve().parents[1] / package


def built(path: Path, build: Callable[[Path], None]) -> Path:
    """Return `path`, after creating it with `build(temporary)` if it doesn't exist; `build` makes a file or folder."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        for leftover in path.parent.glob(f".{path.name}.*.building"):
            remove_tree(leftover)  # left by a killed builder: its lock is free
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".building", dir=path.parent))
        temporary.chmod(0o755)
        try:
            build(temporary / "result")
            (temporary / "result").rename(path)
        finally:
            remove_tree(temporary)
    return path


def content_hash(paths: Iterable[Path], *extra: str) -> str:
    """Twelve hex digits of the content of files and folders (names, modes, bytes, link targets) and of `extra`."""
    digest = hashlib.sha256()
    for root in paths:
        files = sorted(p for p in root.rglob("*") if "__pycache__" not in p.parts) if root.is_dir() else [root]
        for file in files:
            digest.update(f"{file.relative_to(root) if file != root else file.name}\0".encode())
            if file.is_symlink():
                digest.update(os.readlink(file).encode())
            elif file.is_file():
                digest.update(b"%o" % (file.stat().st_mode & 0o111))
                digest.update(file.read_bytes())
    for text in extra:
        digest.update(f"\0{text}".encode())
    return digest.hexdigest()[:12]


def remove_tree(path: Path) -> None:
    """Remove a file or folder, if it exists; it may contain read-only folders (Go's module cache)."""
    if path.is_dir() and not path.is_symlink():
        # rm, not shutil: it is much faster on the 10⁵ files of container stores and never follows links.
        subprocess.run(["rm", "-rf", "--one-file-system", str(path)], check=True)
        if path.exists():
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
