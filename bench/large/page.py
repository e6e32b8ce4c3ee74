"""The measurements as a page for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["a_second", "page"]

_CHECK = """\
## `check`

`upgrader check --to {target}`, as a user runs it, on a lab with one controller: first as it is, then with the objects
of a large cluster in its etcd ({date}, {cores} cores for everything; `make bench-large`).

{table}

- *Largest process* is its peak memory (`ru_maxrss`); *together* is the memory of all processes, Helm's included (PSS).
- *Lists without a limit* are the `list` requests without `limit` in the API server's audit log, by user agent.
- The objects are copies of the lab's own in etcd: nodes with 50 images, pods and nodes with their managed fields, one
  pod of each node in kube-system. kube-controller-manager, which would evict pods of silent nodes, doesn't lead.
- Limits: {seconds:.0f} s for the median of the tries ({median_seconds:.1f} s), and {mebibytes:.0f} MiB.
{remarks}"""


_RUN = """## `run`

`upgrader run --to {target} --yes` on a lab with one controller, first without workers, then with workers
whose kubelets are simulated by [kwok](https://kwok.sigs.k8s.io): each worker renews its Lease every 10 s and has a
kube-proxy, which the upgrade replaces ({date}, {cores} cores for everything; `make bench-nodes`).

{table}

- *Its own* are the requests of `upgrader` without Helm's, by part. Requests of no other part count as those of *gates*.
  The step `images` starts a pod on each node. *Leases* are heartbeats and elections.
- kube-controller-manager may send 200 requests a second (`kube-api-qps`). With the usual 20, kube-proxy takes 100 s.
- Limits: the run may take {limit} × as long as without these nodes (measured: {ratio} ×), and the gates may send
  {a_second:g} requests a second on average, however many nodes there are (measured: {measured:.1f}).
{beside}{remarks}"""

_BESIDE = """\
- *By kubectl alone*, on the same nodes: a DaemonSet with a preloaded image is created, rolled out and deleted (as step
  `images` does), and kube-proxy is restarted (as in step `kubernetes`). No upgrade of these components can be quicker.
  If kubectl's time is subtracted, the run took {ratio_beside} × as long as the run without these nodes.
"""

_MEMORY = """## Memory of what a `run` reads

`python -m bench.large.memory`, medians of {tries} ({date}, {cores} cores): peaks (`VmHWM`, MiB) of a process that has
imported all that a run may import, after each part of what a run reads of an API server in memory. Nodes have 50 images
each, `/metrics` has 40,000 lines. Not included: the plan's manifests; the processes of Helm, Ansible and the prober.
Limit: {limit:.0f} MiB (measured: {most:.0f}).

{table}
"""

_WORKERS = """## CPU time for each worker

`python -m bench.large.workers`, median of {tries} ({date}, {cores} cores, load average {load:.0f}): for each of \
{workers}
workers of an API server in memory, with nine pods to evict each, upgraded a tenth at a time with gates between batches,
a run needs {cpu_seconds:.2f} s of CPU and {requests} requests, and {task_ms:.1f} ms to read Ansible's events \
of a task. Limit: {limit} s.
"""


def page(figures: Mapping[str, Any]) -> str:
    """The page, as Markdown, of what was measured so far."""
    parts = ["# Large clusters"]
    if check := figures.get("check"):
        columns = [
            "", "nodes", "pods", "ConfigMaps", "exit", "s", "CPU, s", "largest process, MiB", "together, MiB",
            "requests", "lists without a limit", "load average",
        ]  # fmt: skip
        rows = [_check_row(row) for row in check["rows"]]
        remarks = "".join(f"- {remark}\n" for remark in check.get("remarks", ()))
        parts.append(_CHECK.format(**{**check, "table": _table(columns, rows), "remarks": remarks}))
    if run := figures.get("run"):
        columns = [
            "",
            "s",
            "steps, s",
            "requests",
            "Leases",
            "its own",
            "gates, requests a second",
            "most asked by gates",
            "load average",
        ]
        rows = [_run_row(row) for row in run["rows"]]
        beside = ""
        if alone := run.get("by_kubectl"):
            blank = [""] * (len(columns) - 3)
            rows.append(["the same rollouts by kubectl alone", f"{sum(alone.values()):.1f}", _steps(alone), *blank])
            beside = _BESIDE.format(**run)
        remarks = "".join(f"- {remark}\n" for remark in run.get("remarks", ()))
        shown = {"table": _table(columns, rows), "measured": max(map(a_second, run["rows"]))}
        parts.append(_RUN.format(**{**run, **shown, "beside": beside, "remarks": remarks}))
    if memory := figures.get("memory"):
        names = list(memory["rows"][0]["peaks"])
        rows = [_memory_row(row, names) for row in memory["rows"]]
        table = _table(["nodes", "pods", *names, "load average"], rows)
        most = max(memory["rows"][-1]["peaks"].values())
        parts.append(_MEMORY.format(**{**memory, "table": table, "most": most}))
    if workers := figures.get("workers"):
        parts.append(_WORKERS.format(**workers, task_ms=1000 * workers["task_seconds"]))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def a_second(row: Mapping[str, Any]) -> float:
    """How many requests gates sent in a second of a run, on average."""
    return float(row["parts"].get("gates", 0)) / float(row["seconds"])


def _check_row(row: Mapping[str, Any]) -> list[str]:
    lists = "; ".join(f"{count} × {what}" for what, count in row["unpaged"].items()) or "none"
    return [
        row["what"],
        *(f"{row['objects'][kind]:,}" if kind in row["objects"] else "" for kind in ("nodes", "pods", "configmaps")),
        *(str(row["exit_code"]), f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}"),
        *(f"{row['largest_mib']:.0f}", f"{row['together_mib']:.0f}", str(row["requests"]), lists),
        f"{row['load']:.0f}",
    ]


def _run_row(row: Mapping[str, Any]) -> list[str]:
    return [
        row["what"],
        f"{row['seconds']:.1f}",
        _steps(row["steps"]),
        *(f"{row[kind]:,}" for kind in ("requests", "leases")),
        ", ".join(f"{number:,} {part}" for part, number in row["parts"].items()),
        f"{a_second(row):.1f}",
        ", ".join(f"{count} × {what}" for what, count in row["most"].items()),
        f"{row['load']:.0f}",
    ]


def _memory_row(row: Mapping[str, Any], names: list[str]) -> list[str]:
    sizes = [f"{row['nodes']:,}", f"{row['pods']:,}"]
    return [*sizes, *(f"{row['peaks'][name]:.0f}" for name in names), f"{row['load']:.0f}"]


def _steps(seconds: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {taken:.0f}" for name, taken in seconds.items() if taken is not None)


def _table(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join(["| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *rows)])
