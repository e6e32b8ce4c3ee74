"""Which Helm processes of this machine work on a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.adapters.helm_processes import helm_at_work

UPGRADE = "/usr/bin/helm upgrade app chart --install --namespace kube-system --kubeconfig /c/kubeconfig"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (UPGRADE, 42),
        ("helm rollback app 3 --namespace=kube-system", 42),
        ("helm history app --namespace kube-system", 0),
        ("helm upgrade app chart --namespace other", 0),
        ("helm upgrade other chart --namespace kube-system", 0),
        ("vi helm upgrade app --namespace kube-system", 0),
        ("", 0),
    ],
)
def test_helm_is_found_by_its_command_line(tmp_path: Path, command: str, found: int) -> None:
    """Only a Helm that changes this release counts."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cmdline").write_text("\0".join([*command.split(), ""]))
    (tmp_path / "43").mkdir()  # it has just ended
    assert helm_at_work("app", "kube-system", tmp_path) == found
