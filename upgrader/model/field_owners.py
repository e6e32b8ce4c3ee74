"""Who changed what a release has applied: by `metadata.managedFields`, in which the API server notes every writer.

Helm owns each field that it wrote, until another writer sets that field to another value. So what Helm doesn't own any
more, and what differs from the release's manifest, was changed by somebody else. What the API server fills in, writes
in another form (`1000m` as `1`), or has changed by a policy while Helm wrote it, is still Helm's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upgrader.model.quantity import quantity

__all__ = ["ForeignChange", "declaring_writers", "foreign_changes"]

_OURS = ("helm", "upgrader")
_GITOPS = ("argocd", "helm-controller", "kustomize-controller")
"""How the field managers begin of those that apply an object again and again, also where they merge it."""
_BY_HAND = "kubectl"
_SHOWN = 80
_RESIZED = "resources"
"""Of containers."""
_ENVIRONMENT = ".env["
"""What may hold a password in any form."""

_Owners = Sequence[tuple["_Writer", Any]]
"""The writers of a field, each with what it owns below it, as FieldsV1 has it."""


@dataclass(frozen=True)
class _Writer:
    manager: str
    time: str

    @property
    def ours(self) -> bool:
        """Whether it is Helm, or upgrader itself."""
        return self.manager in _OURS


@dataclass(frozen=True)
class ForeignChange:
    """One field of a release that another writer has changed."""

    field: str
    """`spec.template.spec.containers[kube-apiserver].image`."""
    manager: str
    """The writer's field manager."""
    time: str
    """When it last wrote, as the API server has it; "" if that isn't known."""
    wanted: str
    """As the release's manifest has it; "" if it isn't shown."""
    found: str
    """As it is now; "" if it isn't shown."""

    def __str__(self) -> str:
        at = f" at {self.time}" if self.time else ""
        values = f": {self.found} instead of {self.wanted}" if self.found or self.wanted else ""
        return f"field manager {self.manager} changed {self.field}{at}{values}"


def foreign_changes(live: Mapping[str, Any], template: Mapping[str, Any]) -> tuple[ForeignChange, ...]:
    """What others have changed of a workload's pod template, of which a manifest has `template`.

    Only of that: replicas are an autoscaler's to change, and so are the resources of an add-on that is sized to its
    cluster. What isn't in the manifest, such as the annotation of `kubectl rollout restart`, takes nothing from the
    release. Nothing where Helm is no writer of it, as after a restore without managed fields.
    """
    entries = (live.get("metadata") or {}).get("managedFields") or ()
    writers = [
        (_Writer(str(each.get("manager") or ""), str(each.get("time") or "")), each.get("fieldsV1") or {})
        for each in entries
        if not each.get("subresource")
    ]
    owners = _below(_below(writers, "f:spec"), "f:template")
    if not any(writer.ours for writer, _ in owners):
        return ()
    return tuple(_changes("spec.template", template, (live.get("spec") or {}).get("template"), owners))


def declaring_writers(live: Mapping[str, Any]) -> tuple[str, ...]:
    """The other field managers that declare a workload's pod template, and may apply it again.

    Those that apply it on the server's side, but for `kubectl`, which does so once; and GitOps controllers, whichever
    way they write.
    """
    entries = [each for each in (live.get("metadata") or {}).get("managedFields") or () if not each.get("subresource")]
    found = (
        str(each.get("manager") or "")
        for each in entries
        if "f:template" in ((each.get("fieldsV1") or {}).get("f:spec") or {})
        and (each.get("operation") == "Apply" or str(each.get("manager")).startswith(_GITOPS))
    )
    return tuple(dict.fromkeys(name for name in found if name not in _OURS and not name.startswith(_BY_HAND)))


def _changes(field: str, wanted: Any, found: Any, owners: _Owners) -> Iterator[ForeignChange]:
    """What is gone has no owner any more: nothing tells whether it was ever kept by the API server."""
    if not owners or found is None or wanted is None:
        return
    if isinstance(wanted, Mapping) and isinstance(found, Mapping) and not _atomic(owners):
        for key, value in wanted.items():
            if key == _RESIZED and field.endswith("]"):
                continue
            yield from _changes(f"{field}.{key}", value, found.get(key), _below(owners, f"f:{key}"))
    elif isinstance(wanted, list) and isinstance(found, list) and (keys := _keys(owners)):
        for item in (each for each in wanted if isinstance(each, Mapping)):
            key = next((key for key in keys if _is(item, _identity(key), defaulted=True)), "")
            same = next((each for each in found if key and _is(each, _identity(key))), None)
            name = next(iter(_identity(key).values()), "") if key else ""
            yield from _changes(f"{field}[{name}]", item, same, _below(owners, key))
    elif not any(writer.ours for writer, _ in owners) and not _same(wanted, found):
        last = max((writer for writer, _ in owners), key=lambda each: each.time)
        shown = ("", "") if _ENVIRONMENT in field else (_text(wanted, found), _text(found, wanted))
        yield ForeignChange(field, last.manager, last.time, *shown)


def _below(owners: _Owners, key: str) -> _Owners:
    return [(writer, fields[key]) for writer, fields in owners if key in fields]


def _atomic(owners: _Owners) -> bool:
    """Whether the API server takes it as one value: who owns it owns nothing below."""
    return not any(key != "." for _, fields in owners for key in fields)


def _keys(owners: _Owners) -> list[str]:
    """Those of a list whose items have an identity, such as a container's name: `k:{"name":"main"}`."""
    return [key for _, fields in owners for key in fields if key.startswith("k:")]


def _identity(key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(key.removeprefix("k:"))
    return found


def _is(item: Any, identity: Mapping[str, Any], *, defaulted: bool = False) -> bool:
    """Whether it is the item of that identity; `defaulted`: but for what is left to a default, as a port's protocol."""
    own = {name: item[name] for name in identity if name in item}
    return bool(own) and all(identity[name] == value for name, value in own.items()) and (defaulted or own == identity)


def _same(wanted: Any, found: Any) -> bool:
    """Whether it is one value, with what the API server fills in below it, or one amount in two forms: before Helm 4,
    Helm didn't own what it left as it was.
    """
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(value is None or _same(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_same, wanted, found))
    try:
        return wanted == found or math.isclose(quantity(str(wanted)), quantity(str(found)))
    except ValueError:
        return False


def _text(value: Any, other: Any) -> str:
    """Of a list what the other one lacks, as most of a program's arguments are the same."""
    if isinstance(value, list) and isinstance(other, list):
        value = [each for each in value if each not in other]
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
