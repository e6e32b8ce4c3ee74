"""What others changed of a workload that was just applied: neither waiting nor repeating it helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.gates.remedies import pause_writer
from upgrader.model.field_owners import foreign_changes
from upgrader.model.outcome import Verdict, broken
from upgrader.model.redaction.printable import mask_secrets
from upgrader.model.workload import WorkloadRef
from upgrader.ports import KubeObject

__all__ = ["foreign_verdict"]


def foreign_verdict(ref: WorkloadRef, found: KubeObject, template: Mapping[str, Any]) -> Verdict | None:
    """`broken`, with who changed what of the applied pod template; None for no change.

    Helm could only apply it once more, and so fight with the one that changes it back.
    """
    changes = foreign_changes(found, template)
    if not changes:
        return None
    first, *others = (mask_secrets(str(change)) for change in changes)
    return broken(f"{ref}: {first}", *others, remedy=pause_writer(ref, changes[0].manager))
