"""Refuses charts whose schema of values points outside: Helm opens the files and URLs of each `$ref` in it."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from upgrader.errors import ChartRefused

__all__ = ["check_schemas"]

_SCHEMA, _ARCHIVE = "values.schema.json", ".tgz"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DRAFTS = frozenset(
    f"json-schema.org/{draft}/schema"
    for draft in ("draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12")
)
"""Helm has these itself; any other `$schema` would be fetched."""
_MOST_BYTES = 20 * 1024 * 1024
_MOST_UNPACKED = 100 * 1024 * 1024
"""Of all archives of a chart together, also those in archives; as Helm has it for a packed chart."""
_MOST_NESTED = 8


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
            raise OSError(f"unpacked, it has more than {_MOST_UNPACKED} bytes")
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
        raise _refused(name, f"is packed {nested} times")
    try:
        with (
            archive,
            gzip.GzipFile(fileobj=archive) as unzipped,
            tarfile.open(fileobj=_Limited(unzipped, budget), mode="r:") as members,
        ):
            for member in members:
                if not member.isfile() or not any(each in member.name for each in (_SCHEMA, _ARCHIVE)):
                    continue
                inside = f"{name}:{member.name}"
                if member.size > _MOST_BYTES:
                    raise _refused(inside, f"has {member.size} bytes")
                file = members.extractfile(member)
                assert file is not None, "it is a file"
                content = file.read()
                if _SCHEMA in member.name:
                    yield inside, content
                else:
                    yield from _packed(inside, io.BytesIO(content), nested + 1, budget)
    except (tarfile.TarError, EOFError, OSError, ValueError, RecursionError, zlib.error) as error:
        raise _refused(name, f"can't be read: {error}") from error


class _Limited(io.BufferedIOBase):
    """An archive's content, as long as it isn't endless: a megabyte of zeros takes a kilobyte."""

    def __init__(self, source: gzip.GzipFile, budget: _Budget) -> None:
        self._source, self._budget = source, budget

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._source.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = self.tell()
        to = offset if whence == io.SEEK_SET else at + offset
        self._budget.take(to - at if to >= at else to)  # backwards, it is unpacked from the beginning again
        return self._source.seek(to)

    def read(self, size: int | None = -1) -> bytes:
        most = self._budget.left + 1  # a header may ask for any number
        content = self._source.read(most if size is None or size < 0 else min(size, most))
        self._budget.take(len(content))
        return content


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
        f"{name}: {why}: nothing outside the chart is opened offline",
        remedy="Write the definition into the schema itself (`$defs`, and `$ref: '#/$defs/NAME'`), or plan with the "
        "cluster once the change is reviewed.",
    )
