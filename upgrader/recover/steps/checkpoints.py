"""Reads what the controllers' generations consist of, for comparing them with Helm's revisions."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from upgrader.errors import HostError
from upgrader.onhost.node.generation import RECORD
from upgrader.onhost.node.generation_choice import last_good
from upgrader.onhost.sending.host_facts import Generation
from upgrader.ports import Hosts
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis
from upgrader.recover.steps.revision_match import Checkpoint

__all__ = ["read_checkpoints"]


def read_checkpoints(hosts: Hosts, diagnosis: Diagnosis, note: Callable[[str], None]) -> tuple[Checkpoint, ...]:
    """kube-apiserver's last-known-good on the controllers, each content once: what is in use now comes first.

    An older generation is read only where it is in use: behind it, newer ones were tried in vain. What can't be read
    is noted and left out.
    """
    found: dict[tuple[object, ...], Checkpoint] = {}
    for controller, generation in (*_chosen(diagnosis, in_use=True), *_chosen(diagnosis, in_use=False)):
        try:
            checkpoint = _read(hosts, controller, generation)
        except (HostError, ValueError) as error:
            note(f"{controller.host.name}: {error}")
            continue
        if checkpoint is not None:
            found.setdefault((*sorted(checkpoint.content.items()), *sorted(checkpoint.files.items())), checkpoint)
    return tuple(found.values())


def _chosen(diagnosis: Diagnosis, *, in_use: bool) -> Iterator[tuple[Controller, Generation]]:
    for controller in diagnosis.controllers:
        workload = controller.facts.workload() if controller.facts else None
        if workload is None or (controller.active is not None) is not in_use:
            continue
        used = (generation for generation in workload.generations if generation.number == controller.active)
        chosen = last_good(used if in_use else workload.generations)
        if chosen is not None:
            yield controller, chosen


def _read(hosts: Hosts, controller: Controller, generation: Generation) -> Checkpoint | None:
    manifest = hosts.read(controller.host, generation.manifest)
    record = hosts.read(controller.host, posixpath.join(generation.folder, RECORD))
    return Checkpoint.parse(generation.number, manifest, record) if manifest and record else None
