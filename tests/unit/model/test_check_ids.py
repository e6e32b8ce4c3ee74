"""The list of ids that `upgrader.yaml` may name is that of the checks."""

from __future__ import annotations

from scripts.checks_reference import described_findings
from upgrader.model.check_ids import READ_BY_CHECKS_ONLY, WORST_SEVERITY
from upgrader.preflight.all_checks import CHECKS

ORDER = ("error", "unknown", "warning", "info")


def test_every_finding_of_the_code_is_listed_with_its_worst_severity() -> None:
    """No id is missing, misspelt or left over, and none is thought to be milder than its check has it."""
    expected = {id_: min(severity.split(" or "), key=ORDER.index) for id_, severity in described_findings().items()}
    expected |= {f"{family}.unknown": "unknown" for family, _ in CHECKS}
    expected |= {f"{family}.forbidden": "warning" for family in READ_BY_CHECKS_ONLY}
    assert expected == WORST_SEVERITY
