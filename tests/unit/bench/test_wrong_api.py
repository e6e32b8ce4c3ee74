"""`python -m bench.wrong_api`: the page that it writes."""

from __future__ import annotations

from dataclasses import replace

from bench.wrong_api import Row, page


def test_page_tells_which_ended_well() -> None:
    """Each way of being wrong has its row; only exit code 4, in time, on a healthy cluster counts as well ended; or 0
    for what is harmless, and 3 for what a check must block.
    """
    good = Row("issuer", "--a=b", 4, 40.2, 70.0, 90.0, "", "gate continuity | broken")
    bad = [replace(good, seconds=91.0), replace(good, exit_code=5), replace(good, healthy="pod x is not Ready")]
    harmless = replace(good, name="range", harmless=True)
    told = replace(good, name="audit", blocked=True)
    last = [replace(harmless, exit_code=0), told, replace(told, exit_code=3)]
    text = page([good, *bad, harmless, *last], "python -m bench.wrong_api", "2026-01-01")
    assert "| issuer | `--a=b` | 4 | 40 | 90 | 70 | yes | gate continuity / broken |" in text
    assert "| audit | `--a=b` | 3 | – | – | 70 | yes | gate continuity" in text
    assert "| range | `--a=b` | 0 | – | – | 70 | yes | harmless" in text
    assert "3 of 8 ended as they should" in text and "pod x is not Ready" in text
