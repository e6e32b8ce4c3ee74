"""Who changed fields that a release applied, by `metadata.managedFields`, in which the API server records every writer.

Helm owns each field that it wrote, until another writer sets that field to another value. So a field that Helm no
longer owns and that differs from the release's manifest was changed by another client. Helm still owns what the API
server defaults, writes in another form (`1000m` as `1`), or changed by a policy while Helm wrote it.
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
"""Prefixes of the field managers that apply an object repeatedly, including those that merge it."""
_BY_HAND = "kubectl"
_SHOWN = 80
_RESIZED = "resources"
"""Fields of containers."""
_ENVIRONMENT = ".env["
"""Fields that may contain a password in any form."""

_Owners = Sequence[tuple["_Writer", Any]]
"""The writers of a field, each with what it owns below that field, as FieldsV1."""


@dataclass(frozen=True)
class _Writer:
    manager: str
    time: str

    @property
    def ours(self) -> bool:
        """Whether it is Helm or upgrader itself."""
        return self.manager in _OURS


@dataclass(frozen=True)
class ForeignChange:
    """One field of a release that another writer has changed."""

    field: str
    """`spec.template.spec.containers[kube-apiserver].image`."""
    manager: str
    """The writer's field manager."""
    time: str
    """When it last wrote, by the API server's record; "" if that isn't known."""
    wanted: str
    """The value in the release's manifest; "" if it isn't shown."""
    found: str
    """The present value; "" if it isn't shown."""

    def __str__(self) -> str:
        at = f" at {self.time}" if self.time else ""
        values = f": {self.found} instead of {self.wanted}" if self.found or self.wanted else ""
        return f"field manager {self.manager} changed {self.field}{at}{values}"


def foreign_changes(live: Mapping[str, Any], template: Mapping[str, Any]) -> tuple[ForeignChange, ...]:
    """The changes by other clients to a workload's pod template, of which a manifest has `template`.

    Only the pod template: autoscalers change replicas, and the resources of an add-on that is sized to its cluster.
    Fields that aren't in the manifest, such as the annotation of `kubectl rollout restart`, take nothing from the
    release. Empty if Helm isn't among the writers, as after a restore without managed fields.
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
    """The other field managers that declare a workload's pod template and may apply it again.

    Those with server-side apply, except `kubectl`, which applies once; and GitOps controllers, with either kind of
    apply.
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
    """A removed field has no owner: nothing tells whether the API server ever stored it."""
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
    """Whether the API server treats it as one value: its owner then owns no field below it."""
    return not any(key != "." for _, fields in owners for key in fields)


def _keys(owners: _Owners) -> list[str]:
    """The entries of a list whose items have an identity, such as a container's name: `k:{"name":"main"}`."""
    return [key for _, fields in owners for key in fields if key.startswith("k:")]


def _identity(key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(key.removeprefix("k:"))
    return found


def _is(item: Any, identity: Mapping[str, Any], *, defaulted: bool = False) -> bool:
    """Whether the item has that identity; `defaulted`: ignoring defaulted fields, such as a port's protocol."""
    own = {name: item[name] for name in identity if name in item}
    return bool(own) and all(identity[name] == value for name, value in own.items()) and (defaulted or own == identity)


def _same(wanted: Any, found: Any) -> bool:
    """Whether it is one value, including what the API server defaults below it, or the same amount in two forms: before
    Helm 4, Helm didn't own a field that it left unchanged.
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
    """The entries that the other list lacks, as most arguments of a program are the same."""
    if isinstance(value, list) and isinstance(other, list):
        value = [each for each in value if each not in other]
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
