"""The reference of the checks before a run, made from their code: `make docs` writes docs/reference/checks.md."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.app.finding_texts import CheckTexts, check_texts
from upgrader.model.check_ids import READ_BY_CHECKS_ONLY, SKIPPABLE

__all__ = ["described_findings", "render"]

_HEAD = """\
# Checks

What `upgrader check`, `plan` and `run` look at before anything changes. Made from the checks' code by `make docs`.

All checks are made, whatever the others find, and none changes anything. A finding of severity `error` blocks the run;
so does `unknown`, as what could not be checked is not known to be healthy. A check that fails itself is a finding
`FAMILY.unknown`, with the reason. `…` stands for the names of objects and other details.

Where a check lacks a right that only checks need, it is the warning `FAMILY.forbidden`, which names the right. That can
be so for {forbidden}.

Only a run's step `trial` finds `trial`, and `check --trial`: that needs short-lived pods.

`check --offline` reads the cluster's folder alone: the sections Folder charts, Folder files and Helm client, the target
itself, what `removed-apis` finds in the planned releases, and, by names alone, whom `playbooks` are for. All other
questions it lists as not asked.

`--skip ID --reason TEXT` of `check` and `run` starts a run in spite of a finding; the run's journal records both.
These families can be skipped: {skippable}. Without the others no run gets far, or none finds a way back.

`checks.severities` of [upgrader.yaml](upgrader-yaml.md#checks) sets the severity of a finding by its id, for every
command. Any can be raised; only those that can be skipped can be lowered. The report shows the check's own severity,
too, and the run's journal records both.
"""


def render() -> str:
    """The reference as Markdown: one section for each file of checks."""
    skippable, forbidden = (
        ", ".join(f"`{each}`" for each in sorted(every)) for every in (SKIPPABLE, READ_BY_CHECKS_ONLY)
    )
    head = _HEAD.format(skippable=skippable, forbidden=forbidden)
    return "\n".join([head, *(line for texts in check_texts() for line in _section(texts))])


def described_findings() -> dict[str, str]:
    """Each id in the code, and the severities that its check gives it (`error or warning`)."""
    return {finding.id: finding.severity for texts in check_texts() for finding in texts.findings}


def _section(texts: CheckTexts) -> Iterator[str]:
    yield f"## {texts.heading}\n\n{texts.claim}\n"
    yield "| id | severity | finding | remedy |\n|---|---|---|---|"
    for finding in texts.findings:
        cells = (f"`{finding.id}`", finding.severity, finding.title, finding.remedy)
        yield f"| {' | '.join(cell.replace('|', '&#124;').replace(chr(10), ' ') for cell in cells)} |"
    yield ""


if __name__ == "__main__":
    print(render(), end="")
