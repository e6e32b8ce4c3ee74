"""The binaries that each hop installs on nodes are known and present, before the first hop starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.node_configuration import ContainerRuntime
from upgrader.preflight.context import PreflightContext
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import planned_of

__all__ = ["check_node_sources"]


def check_node_sources(context: PreflightContext) -> Iterator[Finding]:
    """Nothing where the run upgrades no nodes."""
    changing = [step for step in planned_of(context.plan, PlannedNodes) if step.nodes]
    if changing:
        yield from _source(context, changing)
        yield from _archive(changing[0].configuration.runtime)


def _source(context: PreflightContext, steps: Sequence[PlannedNodes]) -> Iterator[Finding]:
    """All pools have the same source; what it has may differ by the nodes' architectures."""
    target, nodes = steps[0].target, context.observed.nodes
    names = [change.node for step in steps for change in step.nodes]
    architectures = sorted({nodes[name].architecture if name in nodes else "" for name in names})
    missing: dict[str, None] = {}
    for architecture in architectures:
        source = steps[0].source.of(architecture)
        if not source.knows(target):
            of_it = f" for {architecture}" if architecture in steps[0].source.architectures else ""
            yield Finding(
                "nodes.source",
                "error",
                f"`nodes.source` has no SHA-256 of the kubelet {target}{of_it}",
                "Binaries are only installed if their checksum is known.",
                f"Add `sha256: {{{target}: {{kubelet: …}}}}` to `nodes.source` in upgrader.yaml.",
            )
        elif source.kind == "folder":
            wanted = source.at(target)
            paths = [Path(wanted["path"], name) for name in wanted["sha256"]]
            missing |= dict.fromkeys(str(path) for path in paths if not path.is_file())
    if missing:
        yield Finding(
            "nodes.source",
            "error",
            f"missing files: {first_few(list(missing))}",
            "The nodes install these files.",
            "Put the files there, or correct `nodes.source` in upgrader.yaml.",
        )


def _archive(runtime: ContainerRuntime | None) -> Iterator[Finding]:
    archives = runtime.archives if runtime is not None and runtime.kind == "folder" else ()
    missing = [archive for archive in archives if not Path(archive).is_file()]
    if missing:
        yield Finding(
            "nodes.source",
            "error",
            f"missing archives: {first_few(missing)}",
            "The nodes install containerd from there.",
            "Put it there, or correct `nodes.containerRuntime.source.path` in upgrader.yaml.",
        )
