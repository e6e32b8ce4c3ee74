"""The group of a test: what `tests.sharing` gives to one process, and `tests.durations` writes down.

Apart from both, as pytest refuses a plugin that another one has imported.
"""

from __future__ import annotations

import pytest

__all__ = ["GROUP"]

GROUP = pytest.StashKey[str]()
"""Its name."""
