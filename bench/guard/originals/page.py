"""docs/guard-comparison.md: each case, and what either side did in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.guard.originals.case import Case

__all__ = ["Compared", "page"]


@dataclass(frozen=True)
class Compared:
    """What was seen in a case; "" where it wasn't run. `date`: as 2026-11-26."""

    original: str
    guard: str
    date: str


def page(
    tables: Mapping[str, tuple[str, Sequence[Case]]], seen: Mapping[str, Compared], versions: Mapping[str, str]
) -> str:
    """The page, as Markdown.

    `tables`: heading → (the original that is in it, its cases); `versions`: of both originals.
    """
    parts = [_HEAD.format(**{name.replace("-", "_"): each for name, each in versions.items()})]
    for heading, (original, cases) in tables.items():
        rows = [_row(case, seen.get(case.key)) for case in cases]
        table = "\n".join([f"| case | {original} | guard |", "|---|---|---|", *rows])
        parts.append(f"## {heading}\n\n{table}\n")
    dates = sorted({each.date for each in seen.values()})
    parts.append(_END.format(dates=" and ".join(dates) or "no day yet"))
    return "\n".join(parts)


def _row(case: Case, seen: Compared | None) -> str:
    original, guard = (seen.original, seen.guard) if seen else ("", "")
    return f"| {case.what} | {_cell(original)} | {_cell(guard)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ") or "not run yet"


_HEAD = """# guard beside rollout-operator and Podseidon

guard accepts the manifests of two other projects. This page compares it with both in the same cases:
[rollout-operator](https://github.com/grafana/rollout-operator) {rollout_operator} and
[Podseidon](https://github.com/kubewharf/podseidon) {podseidon}, built from their repositories.

Each side has its own etcd and kube-apiserver on one machine, without controllers and kubelets: the test creates pods,
marks them Ready and replaces them, in the same way for both. Each side uses its own CustomResourceDefinitions and
webhook configurations (rollout-operator's `development/`, Podseidon's and guard's charts); only the address and the
certificate are changed. Both run as administrators with their default flags (rollout-operator reconciles every 5 s),
but without the originals' limit of 5 requests a second to the API server. Podseidon's aggregator needs a fork of
Kubernetes' client library and isn't built: on both sides, the test writes the number of pods, as Podseidon's own test
of `MaxConcurrentLag` does. Each case runs on the original, and right afterwards on guard.
"""

_END = """Text in parentheses is the name of the project's own test. A race that wasn't lost in the counted rounds
can still be lost. rollout-operator's own manifest runs one replica: the case with two shows what a second one would do.
Podseidon's chart configures its webhook for deletions only, not for evictions. Times under load need an otherwise idle
machine; they are left out if the machine was busy.

Seen on {dates}, by `python -m bench.guard.originals --rollout-operator CHECKOUT --podseidon CHECKOUT`.
"""
