"""The reference of the checks before a run, made from their code: `make docs` writes docs/reference/checks.md."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.app.finding_texts import CheckTexts, check_texts
from upgrader.model.check_ids import READ_BY_CHECKS_ONLY, SKIPPABLE

__all__ = ["described_findings", "render"]

_HEAD = """\
# Checks

`upgrader check`, `plan` and `run` make these checks before anything changes. `make docs` generates this page from the
code of the checks.

upgrader always makes all checks, and no check changes anything. A finding of severity `error` or `unknown` blocks the
run: `unknown` means that upgrader could not find out whether the cluster is healthy. If a check itself fails, the
finding is `FAMILY.unknown`, with the reason. `…` stands for the names of objects and other details.

Some checks need permissions that runs don't need. If such a permission is missing, the finding is the warning
`FAMILY.forbidden`, which names the permission. These families can have it: {forbidden}.

The checks of the family `trial` start short-lived pods. Only `check --trial` and the step `trial` of a run make them.

`check --offline` reads only the cluster folder. It makes the checks of the sections Folder charts, Folder files and
Helm client, checks the target version, looks for removed APIs in the planned releases, and checks that each playbook
names hosts of the inventory. It lists all other checks as not made.

To start a run despite a finding, use the option `--skip ID --reason TEXT` of `check` and `run`. The run's journal
records both. You can skip the findings of these families: {skippable}. You can't skip
other findings: with one of them, a run would fail, or could not be rolled back.

`checks.severities` in [upgrader.yaml](upgrader-yaml.md#checks) sets the severity of a finding by its id, for every
command. You can raise the severity of each finding. You can lower it only if the finding can be skipped. The report and
the run's journal have both severities: yours, and that of the check.
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
