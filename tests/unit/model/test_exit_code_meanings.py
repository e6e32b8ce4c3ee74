"""The page of exit codes has every code that an error ends with, and no other but those of commands that answer."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.errors import UpgraderError
from upgrader.model.exit_code_meanings import EXIT_CODES

_WITHOUT_AN_ERROR = {0, 7, 130}
"""Done; something to do, of commands that ask; interrupted."""


def test_every_code_of_an_error_is_explained() -> None:
    """An operator who looks up the code of a failed command finds it."""
    raised = {error.exit_code for error in _errors(UpgraderError)}
    assert {each.code for each in EXIT_CODES} == raised | _WITHOUT_AN_ERROR


def _errors(kind: type[UpgraderError]) -> Iterator[type[UpgraderError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _errors(each)
