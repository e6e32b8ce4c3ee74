"""The error of a command that a check blocks: the findings scroll away, and only the error stays on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from upgrader.errors import Blocked
from upgrader.model.finding import Finding

__all__ = ["refusal", "refuse_if_blocked"]

_FINDINGS = 3
_CHARACTERS = 300
"""Of a title, and of a diagnosis."""


def refuse_if_blocked(what: str, findings: Iterable[Finding]) -> None:
    """Raises Blocked where a check forbids what was to be done: `what`, and what has changed, as in the message."""
    findings = tuple(findings)
    if any(finding.blocking for finding in findings):
        raise refusal(f"a check blocks {what}", findings)


def refusal(
    what: str, findings: Iterable[Finding], again: str = "Then run this command again.", *, seen: bool = False
) -> Blocked:
    """The error: `what`, then the first findings that block it, each with its cause, and the remedy of the first.

    Of several with one id, such as one for each workload, only the first is there: others may be nearer to the cause.
    `again`: the next command once they are fixed. `seen`: the findings are still on the screen, each with its cause and
    remedy, so that the error has only their ids.
    """
    blocking = [finding for finding in findings if finding.blocking]
    if seen:
        ids = ", ".join(dict.fromkeys(finding.id for finding in blocking))
        return Blocked(f"{what}\nSee above: {ids}", remedy=f"Fix the findings marked error or unknown. {again}")
    named = list({finding.id: finding for finding in reversed(blocking)}.values())[::-1][:_FINDINGS]
    lines = [what, *(line for finding in named for line in _described(finding))]
    if len(blocking) > len(named):
        lines.append(f"…and {len(blocking) - len(named)} more, above")
    first = next((finding.remedy for finding in named if finding.remedy), "")
    if not first:
        again = f"Fix the findings marked error or unknown. {again}"
    return Blocked("\n".join(lines), remedy="\n".join(filter(None, [first, again])))


def _described(finding: Finding) -> Iterator[str]:
    yield f"{finding.id}: {_short(finding.title)}"
    if finding.diagnosis:
        yield f"  {_short(finding.diagnosis)}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _CHARACTERS else f"{words[: _CHARACTERS - 1]}…"
