"""What `upgrader recover` says where the API answers and kube-apiserver has no release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from upgrader.app.recovery import ProposedRecovery
from upgrader.errors import RollbackFailed


@pytest.mark.parametrize(
    ("says", "named"),
    [
        ('{"gitVersion": "v1.33.13"}', "v1.33.13"),
        ('{"status": "ok"}', "VERSION"),
        ('"ok"', "VERSION"),
        ("ok", "VERSION"),
        ("[" * 100_000, "VERSION"),
    ],
    ids=["api", "object", "text", "word", "deep"],
)
def test_the_way_back_is_named_whatever_answers(says: str, named: str) -> None:
    """A proxy's own words are no version: what to do is said all the same."""
    kube = FakeKube()
    kube.raw_answers["/version"] = says
    tools: Any = SimpleNamespace(helm=FakeHelm(), kube=kube)
    seen: Any = SimpleNamespace(healthy=True)
    unused: Any = None
    with pytest.raises(RollbackFailed, match="is not installed") as caught:
        ProposedRecovery(seen, tools, unused, unused, unused).check_installed()
    assert caught.value.remedy.endswith(f"upgrader run --to {named}")
