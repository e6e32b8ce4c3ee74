"""Charts as archives."""

from __future__ import annotations

import tarfile
from pathlib import Path

from release.charts import pack_charts
from release.sources import Sources


def test_the_same_sources_make_the_same_bytes(tmp_path: Path) -> None:
    """Packed twice, each chart is equal, for files and for registries; Helm's own archives have the time in them."""
    for name in ("one", "two"):
        pack_charts(Sources.of_this_checkout(), tmp_path / name)
    packed = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(packed) == 10
    for name in packed:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with tarfile.open(next((tmp_path / "one").glob("kube-apiserver-*.tgz"))) as archive:
        assert {entry.mtime for entry in archive} == {0}
        assert "kube-apiserver/values.schema.json" in archive.getnames()
