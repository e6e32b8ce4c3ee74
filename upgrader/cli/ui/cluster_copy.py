"""What a copy of a cluster has, and what it leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from upgrader.model.cluster_copy.copy import ClusterCopy
from upgrader.model.counted import counted

__all__ = ["describe_copy"]


def describe_copy(copied: ClusterCopy, out: Path) -> Iterator[str]:
    """Lines for people."""
    size = f"{counted(len(copied.controllers), 'controller')}, {counted(len(copied.workers), 'worker')}"
    yield f"copied      {copied.kubernetes}, {size}"
    counts = Counter(str(item["kind"]) for item in copied.objects)
    if counts:
        yield f"objects     {', '.join(f'{number:,} {kind}' for kind, number in counts.items())}"
    flags = [f"{component} --{name}" for component, given in copied.flags.items() for name in given]
    if flags:
        yield f"flags       {', '.join(flags)}"
    for each in copied.not_copied:
        yield f"not copied  {each}"
    yield f"written     {out}"
