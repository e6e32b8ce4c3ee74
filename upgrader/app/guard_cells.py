"""The use case behind `upgrader guard forget-cell`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from upgrader.app.wiring import open_kube, system_clock
from upgrader.errors import Blocked, UsageError
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.model.first_few import first_few
from upgrader.ports import Clock, Kube, KubeObject
from upgrader.wait_and_retry import wait_until

__all__ = ["forget_cell"]

_SECONDS = 30.0
_FORGOTTEN_SECONDS = 60.0
"""Until guard's generator has done it: another replica begins to lead within 20 s."""
_ONCE = "podseidon.kubewharf.io/remove-cell-once"


def forget_cell(folder: Path, cell: str, asked: Callable[[str], None], note: Callable[[str], None]) -> None:
    """Have all PodProtectors forget what a cell has counted and allowed; `asked` gets each, as NAMESPACE/NAME.

    `note` is told for what it waits.

    Raises UsageError if no PodProtector has the cell, Blocked if one still has it after a minute, ApiError.
    """
    with open_kube(folder, _SECONDS) as kube:
        _forget(kube, system_clock(), cell, asked, note)


def _forget(kube: Kube, clock: Clock, cell: str, asked: Callable[[str], None], note: Callable[[str], None]) -> None:
    knowing = [each for each in kube.list(POD_PROTECTORS) if cell in _cells(each)]
    if not knowing:
        known = sorted({name for each in kube.list(POD_PROTECTORS) for name in _cells(each)})
        raise UsageError(
            f"no PodProtector has a cell {cell!r}; existing cells: {', '.join(known) or 'none'}",
            remedy="List the cells with `kubectl get podprotectors -A -o yaml`.",
        )
    for each in knowing:
        meta = each["metadata"]
        others = [name for name in (_asked(each)).split(",") if name.strip() and name.strip() != cell]
        changes = {"metadata": {"annotations": {_ONCE: ",".join([*others, cell])}}}
        kube.patch(POD_PROTECTORS, meta["name"], changes, meta["namespace"])
        asked(_name(each))

    def waiting() -> str:
        left = [_name(each) for each in kube.list(POD_PROTECTORS) if cell in map(str.strip, _asked(each).split(","))]
        return f"{first_few(left)} still {'have' if len(left) > 1 else 'has'} the annotation {_ONCE}" if left else ""

    what = f"guard's generator to remove cell {cell}"
    if missing := wait_until(clock, waiting, seconds=_FORGOTTEN_SECONDS, what=what, note=note):
        raise Blocked(
            f"cell {cell} was not removed within {_FORGOTTEN_SECONDS:.0f} s: {missing}",
            remedy="guard's generator removes the cell: check the generator's pod with `kubectl get pods` in guard's "
            "namespace. Once it runs, the removal continues.",
        )


def _cells(protector: KubeObject) -> set[str]:
    status: Any = protector.get("status") or {}
    return {str(each.get("cellID", "")) for each in status.get("cells") or ()}


def _asked(protector: KubeObject) -> str:
    annotations: Any = protector["metadata"].get("annotations") or {}
    return str(annotations.get(_ONCE, ""))


def _name(protector: KubeObject) -> str:
    return f"{protector['metadata']['namespace']}/{protector['metadata']['name']}"
