"""Which versions are tested, supported and refused: the first part of docs/reference/supported.md, from the code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from testkit.lab_cluster import OLD, TARGET
from testkit.versions import OLDER, OLDER_TARGET
from upgrader.model.api_lifecycle import newest_known
from upgrader.model.version import KUBELET_MINORS, OLDEST, KubernetesVersion
from upgrader.preflight.flag_lifecycle import known_versions
from upgrader.preflight.helm_client import SUPPORTED_MAJORS

__all__ = ["render"]

_REPOSITORY = Path(__file__).parents[1]
_HEAD = """\
# Supported versions and clusters

What is tested, supported and refused. `make docs` makes this page from the code, the tests' versions and
[bench/results/kinds.json](../../bench/results/kinds.json), where `python -m bench.kinds` records the results of labs.

## Kubernetes

An upgrade goes one minor version at a time ([each in a run of its own](../several-minors.md)) or to another patch. A
downgrade is refused ([checks](checks.md#version-skew)); to undo a run, use
[`upgrader rollback`](../resume.md#what-rollback-does).

| target | |
|---|---|
"""
_TAIL = """
Kubelets may be at most {kubelets} minor versions behind the target, and never ahead. Kubelets of controllers must be at
{oldest} or newer, as they run the control plane's pods. The built-in charts say
`kubeVersion: "{chart}"`, so Helm refuses them on an older API server. All Kubernetes versions use the same charts
([ADR 21](../adr/0021-a-shell-starts-kube-apiserver.md)).

## This machine

| program | versions | |
|---|---|---|
| Python | {python} | others are refused |
| Helm | {helm} | [`helm.version`](checks.md#helm-client) refuses others; tested with the one that the lab builds |
| ansible-core | {ansible} | comes with `upgrader`, locked |
"""


def render() -> str:
    """The page."""
    (chart,) = {yaml.safe_load(path.read_text())["kubeVersion"] for path in _REPOSITORY.glob("charts/*/Chart.yaml")}
    tail = _TAIL.format(
        kubelets=KUBELET_MINORS,
        oldest=_minor((OLDEST.major, OLDEST.minor)),
        chart=chart,
        python=_in("pyproject.toml", r'requires-python = "([^"]+)"'),
        helm=" and ".join(f"{major}.x" for major in SUPPORTED_MAJORS),
        ansible=_in("requirements.lock", r"(?m)^ansible-core==(\S+)"),
    )
    return _HEAD + "".join(f"| {target} | {says} |\n" for target, says in _rows()) + tail


def _rows() -> Iterator[tuple[str, str]]:
    oldest = (OLDEST.major, OLDEST.minor)
    newest = min(newest_known(), max(known_versions()))
    yield f"before {_minor(oldest)}", "refused, by the charts, by `version.too-old` and by `kubelets.too-old`"
    tested = _tested()
    for minor in range(oldest[1], newest[1] + 1):
        yield _minor((oldest[0], minor)), tested.get((oldest[0], minor), "supported; not tested")
    data = "`upgrader` doesn't know yet which flags it removes: `flags.no-data` blocks the run unless it is skipped"
    yield f"after {_minor(newest)}", data


def _tested() -> Mapping[tuple[int, int], str]:
    always, soak = "**tested** in every run of the tests", "**tested** before a release (`make soak`)"
    return {
        _minor_of(OLDER): f"{soak}: {OLDER} is adopted, and comes back after a power cut",
        _minor_of(OLDER_TARGET): f"{soak}: from {OLDER} to {OLDER_TARGET}, with the kubelets of {OLDER}",
        _minor_of(OLD): f"{always}: at {OLD}, a run that changes only values",
        _minor_of(TARGET): f"{always}: from {OLD} to {TARGET}",
    }


def _minor_of(version: str) -> tuple[int, int]:
    parsed = KubernetesVersion.parse(version)
    return parsed.major, parsed.minor


def _minor(minor: tuple[int, int]) -> str:
    return f"v{minor[0]}.{minor[1]}"


def _in(file: str, pattern: str) -> str:
    found = re.search(pattern, (_REPOSITORY / file).read_text())
    if found is None:
        raise SystemExit(f"{file}: no {pattern}")
    return found[1]
