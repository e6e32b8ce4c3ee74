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

guard takes the manifests of two other projects. Here both sides meet the same cases:
[rollout-operator](https://github.com/grafana/rollout-operator) {rollout_operator} and
[Podseidon](https://github.com/kubewharf/podseidon) {podseidon}, built from their repositories, and guard.

Each side has an etcd and a kube-apiserver of its own on one machine, without controllers and kubelets: pods are made,
marked Ready and refilled by the test, alike for both. Each has its own CustomResourceDefinitions and its own webhook
configurations (rollout-operator's `development/`, Podseidon's and guard's charts), in which only the address and the
certificate are others. Both run as administrators and with their default flags (rollout-operator looks every 5 s), but
that the originals' limit of 5 requests a second to the API server is taken away. Podseidon's aggregator needs a fork of
Kubernetes' client library and isn't built: on both sides the test itself writes how many pods there are, as Podseidon's
own test of `MaxConcurrentLag` does. Each case is run on the original and then, right after it, on guard.
"""

_END = """What is in quotation marks is the name of the project's own test. Where rounds are counted, a race that
wasn't lost in them can still be lost. rollout-operator is meant to run as one replica, which its own manifest does: the
case of two shows what a second one would do. Podseidon's chart asks about deletions alone, and an eviction is none.
Times under load need a machine that does nothing else; where it was busy, they are left out.

Seen on {dates}, by:

```console
$ .venv/bin/python -m bench.guard.originals --rollout-operator CHECKOUT --podseidon CHECKOUT
```
"""
