"""Helm's records of releases, and the objects that their manifests are about.

A manifest is YAML, for which hosts have no parser. A server has one, so that it gets a document as it is; only what its
address is made of is read here, in the forms that charts write.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["SELECTOR", "Document", "Record", "documents", "record"]

SELECTOR = "owner=helm"
"""The label of all records, in Secrets and in ConfigMaps."""
_TYPE = "helm.sh/release.v1"
_MOST_BYTES = 64 << 20
_SEPARATOR = re.compile(r"^---(?=\s|$)[^\S\n]*(?:#.*)?\n?", re.MULTILINE)
"""A document may begin on the same line."""
_TOP = re.compile(r"^([\"']?)(apiVersion|kind|metadata)\1\s*:(?:[ \t]+(.*))?$", re.MULTILINE)
_INSIDE = re.compile(r"^([ ]+)([\"']?)(name|namespace)\2\s*:(?:[ \t]+(.*))?$", re.MULTILINE)
_INDENTED = re.compile(r"^[ ]+(?=[^\s#])", re.MULTILINE)
_SCALAR = re.compile(r"(?:([\w./:-]*\w)|\"([^\"\\]*)\"|'([^']*)')?\s*(?:#.*)?$")
_CONTENT = re.compile(r"^[^\S\n]*[^\s#]", re.MULTILINE)
"""Where a document begins, after comments."""
_NAME = re.compile(r"[\w.:@-]{1,253}")
"""Names are told. Each user who may write a Secret can write any text where a record has them."""
_UNREADABLE = (
    binascii.Error,
    zlib.error,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
)


class Record(NamedTuple):
    """What a record has of one revision of a release."""

    release: str
    """`default/web`"""
    namespace: str
    documents: tuple[str, ...]
    """Of its manifest and its hooks, each in YAML or JSON."""


class Document(NamedTuple):
    """What a document is about."""

    api_version: str
    kind: str
    namespace: str
    """ "": the release's."""
    name: str
    """ "": the server gives it one."""


def record(item: dict[str, Any]) -> Record | None:
    """Of a Secret or a ConfigMap; None if it has no record. Raises ValueError if it can't be read."""
    data = item.get("data") or {}
    if "release" not in data or (item["kind"] == "Secret" and item.get("type") != _TYPE):
        return None
    try:
        text = base64.b64decode(data["release"])
        if item["kind"] == "Secret":  # whose data is in base64, too
            text = base64.b64decode(text)
        with gzip.GzipFile(fileobj=io.BytesIO(text)) as packed:
            found = json.loads(packed.read(_MOST_BYTES))
        namespace = str(found.get("namespace") or item["metadata"]["namespace"])
        parts = [found.get("manifest") or "", *(hook.get("manifest") or "" for hook in found.get("hooks") or ())]
        split = [each for part in parts for each in _SEPARATOR.split(part.replace("\r\n", "\n"))]
        name = str(found["name"])
    except _UNREADABLE as error:
        raise ValueError("not a Helm record") from error
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
        raise ValueError("not a Helm record")
    return Record(f"{namespace}/{name}", namespace, tuple(filter(_CONTENT.search, split)))


def documents(read: Record) -> Iterator[tuple[str, Document | None]]:
    """Each document, and what it is about; None if that isn't clear."""
    for text in read.documents:
        yield text, _about(text)


def _about(text: str) -> Document | None:
    begun = _CONTENT.search(text)
    if begun and begun[0].endswith("{"):
        return _of_json(text[begun.start() :])
    tops = {found[2]: found for found in _TOP.finditer(text)}
    if tops.keys() != {"apiVersion", "kind", "metadata"} or _scalar(tops["metadata"][3]) != "":
        return None
    named = _metadata(text[tops["metadata"].end() + 1 :])
    said = (_scalar(tops["apiVersion"][3]), _scalar(tops["kind"][3]), named.get("namespace", ""), named.get("name", ""))
    return _document(*said)


def _metadata(text: str) -> dict[str, str | None]:
    """Of its fields, name and namespace."""
    first = _INDENTED.search(text)
    # Up to the next field of the object: a comment may begin anywhere.
    inside = re.split(r"^[^\s#]", text, maxsplit=1, flags=re.MULTILINE)[0]
    if first is None or first.end() > len(inside):
        return {}
    return {found[3]: _scalar(found[4]) for found in _INSIDE.finditer(inside) if found[1] == first[0]}


def _of_json(text: str) -> Document | None:
    try:
        item = json.loads(text)
        metadata = item["metadata"]
        return _document(item["apiVersion"], item["kind"], metadata.get("namespace", ""), metadata.get("name", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _document(*said: Any) -> Document | None:
    if not all(isinstance(each, str) for each in said):
        return None
    found = Document(*said)
    named = all(not each or _NAME.fullmatch(each) for each in (found.namespace, found.name))
    return found if named and found.api_version and found.kind not in ("", "List") else None


def _scalar(text: str | None) -> str | None:
    """A value on its line, without quotes; None for one in another form, such as a block."""
    found = _SCALAR.match(text or "")
    return None if found is None else next((part for part in found.groups() if part is not None), "")
