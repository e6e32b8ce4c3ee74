"""Checksums, as `sha256sum` reads them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from release.checksums import write_checksums
from release.sources import Sources


def test_every_file_is_covered(tmp_path: Path) -> None:
    """`sha256sum --check` accepts what was made, and refuses one changed byte; the provenance names each file."""
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts/a.tgz").write_bytes(b"a")
    (tmp_path / "b.whl").write_bytes(b"b")
    write_checksums(tmp_path, Sources(tmp_path, "f" * 40, changed=False))

    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    statement = json.loads((tmp_path / "provenance.json").read_text())
    assert [subject["name"] for subject in statement["subject"]] == ["b.whl", "charts/a.tgz"]
    (tmp_path / "charts/a.tgz").write_bytes(b"x")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1
