"""What a controller's facts show: the true cause first, in words, and none of its mere consequences.

Each case is a file in `findings/`: what it proves, the controllers' facts (see `host_facts_json`), and everything that
is found. A finding's diagnosis and remedy count where the case names them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.recover.host_facts_json import host_facts
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.onhost.sending.host_facts import Examined
from upgrader.recover.diagnosis.diagnose import Diagnosis, diagnose
from upgrader.recover.diagnosis.wrong_api import ApiSeen

CASES = {
    path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "findings").glob("*.json"))
}


def examined(number: int, raw: dict[str, Any]) -> Examined:
    """A controller of a case."""
    host = Host(f"controller-{number}", f"10.0.0.{number}")
    return Examined(host, None, raw["unreachable"]) if "unreachable" in raw else Examined(host, host_facts(raw))


def seen_in(case: dict[str, Any]) -> Diagnosis:
    """What is made of a case's facts."""
    api = ApiSeen(case["api_answers"], "connection refused")
    return diagnose([examined(number, raw) for number, raw in enumerate(case["controllers"], 1)], api)


def check_texts(found: Finding, expected: dict[str, Any]) -> None:
    """Diagnosis and remedy, as far as the case names them: in whole, in parts, or by what must not be in them."""
    for name in ("diagnosis", "remedy"):
        text = getattr(found, name)
        assert text == expected.get(name, text)
        assert all(part in text for part in expected.get(f"{name}_has", ()))
        assert not any(part in text for part in expected.get(f"{name}_lacks", ()))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_findings(case: dict[str, Any]) -> None:
    """Exactly these findings in this order, and what would be done about them."""
    seen, expected = seen_in(case), case["expected"]
    found = [{"id": f.id, "severity": f.severity, "title": f.title} for f in seen.findings]
    assert found == [{key: item[key] for key in ("id", "severity", "title")} for item in expected["findings"]]
    for finding, item in zip(seen.findings, expected["findings"], strict=True):
        check_texts(finding, item)
    assert (seen.healthy, seen.blocked) == (expected["healthy"], expected["blocked"])
    for controller, wanted in zip(seen.controllers, expected["controllers"], strict=True):
        restore = controller.restore.number if controller.restore else None
        assert {
            "serves": controller.serves,
            "start": list(controller.start),
            "active": controller.active,
            "restore": restore,
            "blocked": controller.blocked,
        } == wanted


def test_what_helps_against_an_unreachable_controller_is_kept() -> None:
    """Why SSH failed is known where it failed, and so is what to do."""
    examined = Examined(Host("controller-1", "10.0.0.1"), None, "its host key has changed", "ssh-keygen -R 10.0.0.1")
    (found,) = diagnose([examined], ApiSeen(False, "refused")).findings
    assert (found.id, found.remedy) == ("host.unreachable", "ssh-keygen -R 10.0.0.1")


def test_every_case_says_what_it_proves() -> None:
    """Each has a whole sentence, and no key is misspelled, so that nothing is skipped."""
    texts = {f"{name}{part}" for name in ("diagnosis", "remedy") for part in ("", "_has", "_lacks")}
    for stem, case in CASES.items():
        assert case.keys() == {"name", "proves", "api_answers", "controllers", "expected"}, stem
        assert case["proves"].endswith("."), stem
        for item in case["expected"]["findings"]:
            assert item.keys() <= {"id", "severity", "title", *texts}, stem
