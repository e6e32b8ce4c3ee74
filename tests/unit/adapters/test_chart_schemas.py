"""Offline, Helm is not given a chart whose schema would make it open a file or a connection."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from upgrader.adapters.chart_schemas import check_schemas
from upgrader.errors import HelmError

BAD = {"$defs": {"a": [{"$ref": "http://evil.example/x.json"}]}}


def packed(**files: bytes) -> bytes:
    """A chart's archive; `__` in a name stands for a slash."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"web/{name.replace('__', '/')}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "schema",
    [
        BAD,
        {"$ref": "file:///etc/passwd"},
        {"properties": {"a": {"$ref": "other.json"}}},
        {"allOf": [{"$dynamicRef": "https://evil.example"}]},
        {"$schema": "https://evil.example/draft-07/schema#"},
    ],
)
def test_references_to_elsewhere_are_refused(tmp_path: Path, schema: object) -> None:
    """URLs, files and relative names, wherever they are in it: the file is named, with what to do."""
    (tmp_path / "values.schema.json").write_text(json.dumps(schema))
    with pytest.raises(HelmError, match=r"values\.schema\.json: refers to") as refused:
        check_schemas(tmp_path)
    assert "$defs" in refused.value.remedy


@pytest.mark.parametrize("place", ["folder", "packed", "packed twice", "the chart itself"])
def test_subcharts_are_checked_too(tmp_path: Path, place: str) -> None:
    """A subchart has a schema of its own, also one that is packed, and Helm reads it."""
    bad = json.dumps(BAD).encode()
    charts = tmp_path / "charts"
    charts.mkdir()
    chart = tmp_path
    if place == "folder":
        (charts / "sub").mkdir()
        (charts / "sub" / "values.schema.json").write_bytes(bad)
    elif place == "packed":
        (charts / "sub.tgz").write_bytes(packed(**{"values.schema.json": bad}))
    else:
        inner = packed(**{"values.schema.json": bad})
        chart = charts / "sub.tgz"
        chart.write_bytes(packed(**{"charts__x.tgz": inner}))
    with pytest.raises(HelmError, match=r"evil\.example"):
        check_schemas(chart if place == "the chart itself" else tmp_path)


@pytest.mark.parametrize("broken", [b"{", b"[" * 100_000])
def test_a_schema_that_can_not_be_read_is_refused(tmp_path: Path, broken: bytes) -> None:
    """Unknown is not safe: Helm's parser may read what this one can't."""
    (tmp_path / "values.schema.json").write_bytes(broken)
    with pytest.raises(HelmError, match="can't be read"):
        check_schemas(tmp_path)


def test_an_archive_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    """So is a broken archive, by its name."""
    (tmp_path / "sub.tgz").write_bytes(b"no archive")
    with pytest.raises(HelmError, match=r"sub\.tgz: can't be read"):
        check_schemas(tmp_path)


def test_references_inside_are_fine(tmp_path: Path) -> None:
    """Most schemas refer to their own definitions, and name a draft that Helm knows."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#/$defs/a"}}}
    (tmp_path / "values.schema.json").write_text(json.dumps(schema))
    (tmp_path / "loop").symlink_to(tmp_path)
    check_schemas(tmp_path)


@pytest.mark.parametrize("member", ["a file", "a name"])
def test_archive_that_is_endless_when_unpacked_is_refused(tmp_path: Path, member: str) -> None:
    """A few hundred kilobytes of zeros don't take this machine's memory, whatever part of the archive they are in."""
    chart = tmp_path / "web.tgz"
    with gzip.open(chart, "wb", compresslevel=1) as archive:
        header = tarfile.TarInfo("web/values.yaml")
        header.size = 200 * 1024 * 1024
        header.type = tarfile.REGTYPE if member == "a file" else tarfile.GNUTYPE_LONGNAME
        archive.write(header.tobuf())
        for _ in range(200):
            archive.write(bytes(1024 * 1024))
    with pytest.raises(HelmError, match=r"web\.tgz: can't be read: its unpacked size exceeds"):
        check_schemas(chart)


def test_archives_that_grow_together_are_refused(tmp_path: Path) -> None:
    """One limit for a whole chart: each archive may be within it, and a few of them take hours all the same."""
    zeros = io.BytesIO()
    with tarfile.open(fileobj=zeros, mode="w:gz") as archive:
        member = tarfile.TarInfo("web/zeros")
        member.size = 40 * 1024 * 1024
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    inner = zeros.getvalue()
    (tmp_path / "sub.tgz").write_bytes(packed(**{f"charts__{number}.tgz": inner for number in range(4)}))
    with pytest.raises(HelmError, match="its unpacked size exceeds"):
        check_schemas(tmp_path)


def entry(name: str, content: bytes = b"", kind: bytes = b"0", size: int | None = None) -> bytes:
    """One of a tar file, as it is in it; `size`: as its header says."""
    made = tarfile.TarInfo(name)
    made.size, made.type = len(content) if size is None else size, kind
    return made.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def odd_checksum(made: bytes) -> bytes:
    """The same entry with a zero before its checksum's digits, which `tarfile` takes for the archive's end."""
    digits = made[148:154].lstrip(b"0")[-6:].rjust(6, b"0")
    return made[:148] + b"\0" + digits + b" " + made[156:]


SCHEMA_OF_EVIL = ("web/values.schema.json", json.dumps(BAD).encode())


@pytest.mark.parametrize(
    "evil",
    [
        entry(*SCHEMA_OF_EVIL, kind=b"Z"),
        entry(*SCHEMA_OF_EVIL, kind=b"D"),
        entry(*SCHEMA_OF_EVIL, kind=b"7"),
        odd_checksum(entry(*SCHEMA_OF_EVIL)),
        entry("web/a", kind=b"5", size=1024) + entry(*SCHEMA_OF_EVIL),
        entry("web/a/", kind=b"\0", size=1024) + entry(*SCHEMA_OF_EVIL),
        entry("././@PaxHeader", b"16 path=web/abc\n", kind=b"g") + entry(*SCHEMA_OF_EVIL),
        entry("././@PaxHeader", b"12 size=100\n", kind=b"x") + entry("web/a", SCHEMA_OF_EVIL[1]),
        entry("././@PaxHeader", b"31 path=web/values.schema.json\n", kind=b"x") + entry("web/a", SCHEMA_OF_EVIL[1]),
    ],
    ids=["kind-Z", "kind-D", "kind-7", "checksum", "folder", "slash", "global", "size", "path"],
)
def test_an_archive_that_helm_may_read_otherwise_is_refused(tmp_path: Path, evil: bytes) -> None:
    """Helm opens what its own reader finds, whatever this one has skipped, or has taken for the end."""
    content = entry("web/Chart.yaml", b"{apiVersion: v2, name: web, version: 1.0.0}") + evil + bytes(1024)
    (tmp_path / "web.tgz").write_bytes(gzip.compress(content))
    with pytest.raises(HelmError, match=r"web\.tgz"):
        check_schemas(tmp_path / "web.tgz")


def test_long_names_are_fine(tmp_path: Path) -> None:
    """Both ways to write one that no header holds; and folders, and links, which are no files for Helm."""
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", format=form) as archive:
            for name, kind in ((f"web/{'a' * 200}.yaml", b"0"), ("web/templates", b"5"), ("web/link", b"2")):
                member = tarfile.TarInfo(name)
                member.type = kind
                archive.addfile(member)
        (tmp_path / "web.tgz").write_bytes(buffer.getvalue())
        check_schemas(tmp_path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_headers_without_end_are_refused(tmp_path: Path, kind: bytes) -> None:
    """A header that is followed by another of its kind, thousands of times: `tarfile` calls itself for each."""
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 12
    content = (header.tobuf(tarfile.GNU_FORMAT) + b"12 a=bcdefg\n".ljust(512, b"\0")) * 3000
    (tmp_path / "sub.tgz").write_bytes(gzip.compress(content))
    with pytest.raises(HelmError, match=r"sub\.tgz: can't be read"):
        check_schemas(tmp_path)
