"""`python -m bench.wrong_api`: the page that it writes."""

from __future__ import annotations

from dataclasses import replace

from bench.wrong_api import Row, page


def test_page_tells_which_ended_well() -> None:
    """Each way of being wrong has its row; only exit code 4, in time, on a healthy cluster counts as well ended; or 0
    for what is harmless.
    """
    good = Row("issuer", "--a=b", 4, 40.2, 70.0, 90.0, "", "gate continuity | broken")
    bad = [replace(good, seconds=91.0), replace(good, exit_code=5), replace(good, healthy="pod x is not Ready")]
    harmless = replace(good, name="range", harmless=True)
    text = page([good, *bad, harmless, replace(harmless, exit_code=0)], "python -m bench.wrong_api", "2026-01-01")
    assert "| issuer | `--a=b` | 4 | 40 | 90 | 70 | yes | gate continuity / broken |" in text
    assert "| range | `--a=b` | 0 | – | – | 70 | yes | harmless" in text
    assert "2 of 6 ended as they should" in text and "pod x is not Ready" in text
