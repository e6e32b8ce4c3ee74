"""SHA256SUMS, and where a release came from."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path

from release.sources import Sources
from upgrader import __version__

__all__ = ["write_checksums"]


def write_checksums(folder: Path, sources: Sources) -> None:
    """`provenance.json`, and `SHA256SUMS` over it and everything else, for `sha256sum --check`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    (folder / "provenance.json").write_text(json.dumps(_statement(folder, files, sources), indent=2) + "\n")
    listed = sorted([*files, folder / "provenance.json"])
    (folder / "SHA256SUMS").write_text("".join(f"{_sha256(path)}  {path.relative_to(folder)}\n" for path in listed))


def _statement(folder: Path, files: list[Path], sources: Sources) -> dict[str, object]:
    """An in-toto statement with SLSA's provenance: unsigned, as it has no identity to sign with."""
    material = {"uri": "git+upgrader", "digest": {"gitCommit": sources.commit}} if sources.commit else {}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": str(p.relative_to(folder)), "digest": {"sha256": _sha256(p)}} for p in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make dist",
                "externalParameters": {
                    "version": __version__,
                    "registry": sources.registry,
                    "uncommittedChanges": sources.changed,
                },
                "internalParameters": {"python": platform.python_version()},
                "resolvedDependencies": [material] if material else [],
            },
            "runDetails": {"builder": {"id": "make dist"}},
        },
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
