"""What Ansible sends to a node runs on the nodes' Python."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from testkit.command import REPOSITORY

SENT = sorted(path for path in (REPOSITORY / "playbooks/roles").rglob("*.py") if path.parent.name != "action_plugins")
"""Actions run where Ansible does, and are a part of it."""


@pytest.mark.parametrize("path", SENT, ids=lambda path: path.name)
def test_the_oldest_python_that_ansible_manages(path: Path) -> None:
    """The syntax is Python 3.8's, with annotations that are never evaluated, and it imports the standard library."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert "__future__" in imported
    for module in imported:
        assert module.startswith("ansible.module_utils.") or module.split(".")[0] in sys.stdlib_module_names, module
