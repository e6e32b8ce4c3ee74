"""`status`, `generations` and `restore`: for an operator on the node."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from upgrader.in_cluster.checkpointer.checkpointer_errors import RuntimeUnknown, StoreError
from upgrader.in_cluster.checkpointer.observation.running_pods import images_present
from upgrader.in_cluster.checkpointer.storage.node_lock import changing
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.disk_inventory import StoredWorkload
from upgrader.onhost.node.workload_policy import Policy, Workload

_TIMEOUT_SECONDS = 3.0
_CHANGE_WAIT_SECONDS = 30.0


def status(options: argparse.Namespace) -> int:
    """Each workload: its last-known-good, and whether its standby pod is in place."""
    rows = []
    for workload, stored in Store(options.root).read().items():
        newest = stored.newest
        rows.append(
            {
                "workload": str(workload),
                "generation": newest.number if newest else None,
                "captured": newest.origin.captured_at if newest else None,
                "kept": len(stored.records),
                "damaged": len(stored.damaged),
                "failed": len(stored.failed),
                "starts": newest.policy.value if newest else None,
                "active": stored.active,
                "active_generation": stored.active_number,
                "trouble": stored.trouble or None,
            }
        )
    _show(rows, options.json)
    return 0


def generations(options: argparse.Namespace) -> int:
    """Each generation: where it came from, whether it is intact, here with its images, in place."""
    disk_after = Store(options.root).read()
    present = _present(disk_after, options.runtime_socket)
    rows = []
    for workload, stored in disk_after.items():
        images = {g.number: g.has_images for g in stored.inventory(present).generations}
        for number in sorted(stored.generations):
            record = stored.records.get(number)
            rows.append(
                {
                    "workload": str(workload),
                    "generation": number,
                    "state": _state(stored, number),
                    "images": {True: "here", False: "missing", None: "unknown"}[images[number]],
                    "active": number == stored.active_number,
                    "captured": record.origin.captured_at if record else None,
                    "pod": record.origin.pod if record else None,
                    "helm_revision": record.origin.helm_revision or None if record else None,
                    "digest": record.digest[:12] if record else None,
                }
            )
    _show(rows, options.json)
    return 0


def restore(options: argparse.Namespace) -> int:
    """Have the kubelet start a generation's standby pod. Doing it again changes nothing. Raises StoreError when it may
    not.
    """
    store = Store(options.root)
    with changing(store.change_lock, _CHANGE_WAIT_SECONDS) as alone:
        if not alone:
            raise StoreError(f"{store.change_lock}: held by another process for {_CHANGE_WAIT_SECONDS:g} s; try again")
        disk_after = store.read()
        workload = _named(options.workload, disk_after)
        number = _choose(workload, disk_after[workload], _present(disk_after, options.runtime_socket), options)
        store.clear_failed(workload, number)
        changed = store.activate(workload, number)
    sys.stdout.write(
        f"{workload}: generation {number} {'is put' if changed else 'was already'} in place, at "
        f"{store.manifest_path(workload)}; the kubelet starts it.\n"
        "The pod-checkpointer removes it once the API answers and the workload's own pod has stayed Ready; "
        "if no pod-checkpointer is running, remove that file yourself at that point.\n"
    )
    return 0


def _named(name: str, disk_after: Mapping[Workload, StoredWorkload]) -> Workload:
    """The workload that was meant: NAMESPACE/NAME, or NAME where only one has it."""
    found = [w for w in disk_after if name in (str(w), w.name)]
    if len(found) != 1:
        known = ", ".join(map(str, disk_after)) or "none"
        what = "more than one workload" if found else "no workload"
        raise StoreError(f"{what} on this node is called {name}; existing ones: {known}")
    return found[0]


def _choose(
    workload: Workload, stored: StoredWorkload, present: Mapping[str, bool], options: argparse.Namespace
) -> int:
    """The generation to start: the one asked for, or else the best. Raises StoreError for one that can't be."""
    if stored.trouble:
        raise StoreError(stored.trouble)
    inventory = stored.inventory(present)
    wanted = options.generation if options.generation is not None else inventory.best.number if inventory.best else None
    good = ", ".join(str(g.number) for g in inventory.intact) or "none"
    if wanted is None or wanted not in {g.number for g in inventory.generations}:
        raise StoreError(f"{workload} has no generation{'' if wanted is None else f' {wanted}'}; intact ones: {good}")
    if wanted in stored.damaged:
        raise StoreError(f"generation {wanted} of {workload} is damaged: {stored.damaged[wanted]}; intact ones: {good}")
    if inventory.policy is Policy.ALWAYS and wanted != max(stored.records):
        raise StoreError(
            f"{workload} is the pod-checkpointer itself, which always runs its newest intact generation, "
            f"{max(stored.records)}"
        )
    missing = sorted({i for i in stored.generations[wanted].images.values() if present.get(i) is False})
    if missing and not options.missing_images:
        raise StoreError(
            f"generation {wanted} of {workload} needs images that this node doesn't have: {', '.join(missing)}; import "
            f"them, choose another of the intact ones ({good}), or add --missing-images to have the kubelet pull them"
        )
    return wanted


def _present(disk_after: Mapping[Workload, StoredWorkload], socket: str) -> Mapping[str, bool]:
    """Image → whether the node has it; empty, and reported, when the runtime can't be asked."""
    names = frozenset[str]().union(*(s.images for s in disk_after.values()))
    try:
        return images_present(socket, _TIMEOUT_SECONDS, names) if names else {}
    except RuntimeUnknown as error:
        sys.stderr.write(f"pod-checkpointer: {error}\n")
        return {}


def _state(stored: StoredWorkload, number: int) -> str:
    if number in stored.damaged:
        return f"damaged: {stored.damaged[number]}"
    return f"failed: {stored.failed[number]}" if number in stored.failed else "intact"


def _show(rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return
    if not rows:
        sys.stdout.write("no checkpoints on this node\n")
        return
    table = [list(rows[0]), *(["-" if v is None else str(v) for v in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        sys.stdout.write("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n")
