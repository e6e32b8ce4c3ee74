"""Refuses charts whose values schema refers to files or URLs outside the chart: Helm opens each `$ref` in it.

A packed chart is read exactly as Helm reads it, or refused: its author may have made it so that the two readers see
different files. `tarfile` skips entries of unknown types, which Helm reads as files, and treats a malformed header as
the end.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from upgrader.errors import ChartRefused
from upgrader.steps.images.bundle.tar_entries import Entry, NotATar, entries

__all__ = ["check_schemas"]

_SCHEMA, _ARCHIVE = "values.schema.json", ".tgz"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DRAFTS = frozenset(
    f"json-schema.org/{draft}/schema"
    for draft in ("draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12")
)
"""Built into Helm; any other `$schema` would be downloaded."""
_MOST_BYTES = 20 * 1024 * 1024
_MOST_UNPACKED = 100 * 1024 * 1024
"""Limit for all archives of a chart together, nested ones too; Helm has the same for a packed chart."""
_MOST_NESTED = 8
_CHUNK_BYTES = 256 * 1024
_FILE, _OTHERS = (b"0", b"\0"), (b"1", b"2", b"5")
"""Kinds of entries: files, then links and folders, which Helm gives no content."""
_NEXT = (b"L", b"x", b"g")
"""Headers that can rename the next entry."""
_OTHER_CONTENT = (b"size=", b"GNU.sparse")


def check_schemas(chart: Path) -> None:
    """Check the schemas of a chart and its subcharts, packed ones too. Raises ChartRefused for a reference outside."""
    for name, content in _schemas(chart):
        try:
            outside = next(_outside(json.loads(content)), None)
        except (ValueError, RecursionError) as error:
            raise _refused(name, f"can't be read: {error}") from error
        if outside is not None:
            raise _refused(name, f"refers to {outside}, which Helm would open")


@dataclass
class _Budget:
    """How many bytes may still be unpacked."""

    left: int = _MOST_UNPACKED

    def take(self, size: int) -> None:
        if size > self.left:
            raise OSError(f"its unpacked size exceeds {_MOST_UNPACKED} bytes")
        self.left -= size


def _schemas(chart: Path) -> Iterator[tuple[str, bytes]]:
    budget = _Budget()
    if chart.is_file():
        yield from _packed(str(chart), chart.open("rb"), 1, budget)
    seen = set()
    for folder, folders, files in os.walk(chart, followlinks=True):  # Helm follows them, too
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        for path in (Path(folder, file) for file in sorted(files)):
            if path.name == _SCHEMA:
                yield str(path), path.read_bytes()
            elif path.suffix == _ARCHIVE:
                yield from _packed(str(path), path.open("rb"), 1, budget)


def _packed(name: str, archive: IO[bytes], nested: int, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    """The schemas in an archive. Names are searched, not compared: Helm simplifies them before it compares."""
    if nested > _MOST_NESTED:
        raise _refused(name, f"is nested in {nested} archives")
    try:
        with archive, gzip.GzipFile(fileobj=archive) as packed, tempfile.TemporaryFile() as plain:
            while content := packed.read(_CHUNK_BYTES):
                budget.take(len(content))
                plain.write(content)
            plain.flush()
            for inside, content in _files(plain.fileno()):
                where = f"{name}:{inside}"
                if _SCHEMA in inside:
                    yield where, content
                else:
                    yield from _packed(where, io.BytesIO(content), nested + 1, budget)
    except (NotATar, EOFError, OSError, ValueError, RecursionError, zlib.error) as error:
        raise _refused(name, f"can't be read: {error}") from error


def _files(archive: int) -> Iterator[tuple[str, bytes]]:
    """The schemas and archives in an open tar file. Raises NotATar for anything that Helm may read differently."""
    renamed = ""
    for entry in entries(archive):
        if entry.kind in _NEXT:
            content = _content(archive, entry)
            if any(each in content for each in _OTHER_CONTENT):
                raise NotATar(f"{entry.name!r} overrides the size of the next entry")
            renamed += f" {content.decode(errors='replace')}"
            continue
        _check_kind(entry)
        names, renamed = f"{entry.name}{renamed}", ""
        if entry.kind in _FILE and any(each in names for each in (_SCHEMA, _ARCHIVE)):
            yield names, _content(archive, entry)


def _check_kind(entry: Entry) -> None:
    """Raises NotATar for an entry whose type or end differs between readers."""
    if entry.kind not in (*_FILE, *_OTHERS) or not entry.name:
        raise NotATar(f"{entry.name!r} is neither a file nor a folder (type {entry.kind!r})")
    if entry.size and (entry.kind in _OTHERS or entry.name.endswith("/")):
        raise NotATar(f"{entry.name!r} is not a file, but has content")


def _content(archive: int, entry: Entry) -> bytes:
    if entry.size > _MOST_BYTES:
        raise NotATar(f"{entry.name!r} has {entry.size} bytes")
    return os.pread(archive, entry.size, entry.offset)


def _outside(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if isinstance(value, str) and (
                (key in _REFERENCES and not value.startswith("#"))
                or (key == "$schema" and value.partition("://")[2].rstrip("#") not in _DRAFTS)
            ):
                yield f"{key} {value!r}"
            yield from _outside(value)
    elif isinstance(node, list):
        for item in node:
            yield from _outside(item)


def _refused(name: str, why: str) -> ChartRefused:
    return ChartRefused(
        f"{name}: {why}; offline, nothing outside the chart is opened",
        remedy="Move the definition into the schema (`$defs`, and `$ref: '#/$defs/NAME'`), or plan against the cluster "
        "once the change is reviewed.",
    )
