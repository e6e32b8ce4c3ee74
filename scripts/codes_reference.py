"""The reference of errors, gates, exit codes and what `recover` finds, made from their code.

`make docs` writes docs/reference/codes.md, and the table of exit codes in docs/troubleshooting.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from upgrader.app.explanations import all_codes
from upgrader.model.exit_code_meanings import EXIT_CODES

__all__ = ["exit_codes_page", "render"]

_EXIT_CODES = Path(__file__).parents[1] / "docs" / "troubleshooting.md"
_TABLE = re.compile(r"^\| code \|.*?\n\n", re.MULTILINE | re.DOTALL)
_HEAD = """\
# Codes

These are the codes in upgrader's messages. `upgrader explain CODE` explains each of them. `make docs` generates this
page from the code. The ids of checks are in [Checks](checks.md), and the exit codes in
[Troubleshooting](../troubleshooting.md#exit-codes).
"""


def render() -> str:
    """docs/reference/codes.md."""
    lines = [_HEAD, "## Errors\n", "| error | means | exit code |", "|---|---|---|"]
    for each in all_codes():
        if each.kind == "error":
            code = re.search(r"exit code (\d+(?:, \d+)*(?: or \d+)?)", each.why)
            assert code is not None
            lines.append(f"| `{each.code}` | {each.means} | [{code[1]}](../troubleshooting.md#exit-codes) |")
    lines += [
        "\n## Gates\n",
        "[Gates](../concepts.md) are polled after each step.\n",
        "| gate | passes when |",
        "|---|---|",
    ]
    lines += [f"| `{each.code}` | {each.means} |" for each in all_codes() if each.kind == "gate"]
    lines += [
        "\n## What `recover` finds\n",
        (
            "[Troubleshooting](../troubleshooting.md#the-api-does-not-answer) says which problems `recover` fixes.\n"
            "Ids that checks also use are in [Checks](checks.md). `…` stands for names and other details.\n"
        ),
        "| finding | means | what to do |",
        "|---|---|---|",
    ]
    lines += [f"| `{each.code}` | {each.means} | {each.remedy} |" for each in all_codes() if each.kind == "recovery"]
    return "\n".join(lines) + "\n"


def exit_codes_page(page: str) -> str:
    """docs/troubleshooting.md with its table of exit codes as it should be."""
    rows = [f"| {' | '.join((str(each.code), each.meaning, each.cluster, each.remedy))} |" for each in EXIT_CODES]
    table = "\n".join(["| code | meaning | the cluster | what to do |", "|---|---|---|---|", *rows]) + "\n\n"
    return _TABLE.sub(lambda _: table, page, count=1)


if __name__ == "__main__":
    sys.stdout.write(render())
    _EXIT_CODES.write_text(exit_codes_page(_EXIT_CODES.read_text()))
