"""The severities that `upgrader.yaml` sets: only of existing ids, and none lowered that a rollback depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from upgrader.config.yaml_document import Document
from upgrader.errors import ConfigError
from upgrader.model.check_ids import WORST_SEVERITY, may_be_overruled
from upgrader.model.finding import Severity

__all__ = ["severity_problems"]

_RANK: Mapping[Severity, int] = {"info": 0, "warning": 1, "unknown": 2, "error": 2}


def severity_problems(document: Document, severities: Mapping[str, Severity]) -> Iterator[ConfigError]:
    """The problems of `checks.severities`, with the line of each id."""
    for id_, wanted in severities.items():
        where = ("checks", "severities", id_)
        worst = WORST_SEVERITY.get(id_)
        if worst is None:
            near = get_close_matches(id_, WORST_SEVERITY, n=1)
            meant = f"; did you mean '{near[0]}'?" if near else ""
            yield document.error(
                where, f"no check has the id '{id_}'{meant}", remedy="docs/reference/checks.md lists all ids."
            )
        elif _RANK[wanted] < _RANK[worst] and not may_be_overruled(id_):
            yield document.error(
                where,
                f"the severity of '{id_}' is {worst}, and can't be lowered to {wanted}",
                remedy="Fix what the check finds. Only the severity of checks that `--skip` accepts can be lowered: a "
                "run that ignores this one would fail, or would be impossible to roll back.",
            )
