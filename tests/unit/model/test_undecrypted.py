"""Which answers of kube-apiserver say that it has lost a key."""

from __future__ import annotations

import pytest

from upgrader.model.undecrypted import is_undecrypted

KEY = 'Internal error occurred: unable to transform key "/registry/secrets/default/a": '


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (f"{KEY}no matching key was found for the provided AES transformer", True),
        (f"{KEY}no matching prefix found", True),
        (f"{KEY}failed to decrypt DEK, error: rpc error: code = Unavailable desc = connection error", False),
        (f"{KEY}failed to decrypt DEK, error: rpc error: code = DeadlineExceeded desc = context deadline", False),
        ("etcdserver: request timed out", False),
    ],
)
def test_lost_key_is_told_from_a_kms_plugin_that_is_away(answer: str, lost: bool) -> None:
    """A plugin may be back at the next request; a key that isn't configured is missing at each."""
    assert is_undecrypted(answer) is lost
