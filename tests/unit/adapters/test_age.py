"""age files: only the owner of the key reads them, and only whole and unchanged."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyrage
import pytest

from upgrader.adapters.age import AgeFiles
from upgrader.errors import BackupRefused, HostError, UsageError

TEXT = bytes(range(256)) * 2000


def key_pair() -> tuple[str, str]:
    """A public key and its private key."""
    identity = pyrage.x25519.Identity.generate()
    return str(identity.to_public()), str(identity)


def sealed(recipient: str, chunks: Iterator[bytes]) -> bytes:
    """A stream, encrypted."""
    target = io.BytesIO()
    AgeFiles().encrypt(chunks, [recipient], target)
    return target.getvalue()


def test_what_was_encrypted_is_decrypted() -> None:
    """Chunks of any size come back as one stream, for each recipient's key, and without a word of it in the file."""
    (first, one), (second, two) = key_pair(), key_pair()
    target = io.BytesIO()
    AgeFiles().encrypt(iter([b"", TEXT[:10], TEXT[10:], b"secret words"]), [first, second], target)
    assert b"secret words" not in target.getvalue()
    for identity in (one, two):
        assert b"".join(AgeFiles().decrypt(io.BytesIO(target.getvalue()), [identity])) == TEXT + b"secret words"


@pytest.mark.parametrize("at", [-1, -100_000, 300_000])
def test_one_flipped_byte_is_refused(at: int) -> None:
    """A file with one changed byte, wherever it is in the content, is refused."""
    public, private = key_pair()
    damaged = bytearray(sealed(public, iter([TEXT])))
    damaged[at] ^= 1
    with pytest.raises(BackupRefused, match="damaged"):
        list(AgeFiles().decrypt(io.BytesIO(damaged), [private]))


def test_a_file_that_was_cut_off_is_refused() -> None:
    """A file without its end is not taken for a shorter one."""
    public, private = key_pair()
    with pytest.raises(BackupRefused, match="damaged or truncated"):
        list(AgeFiles().decrypt(io.BytesIO(sealed(public, iter([TEXT]))[: -(1 << 16)]), [private]))


def test_what_is_no_age_file_is_refused() -> None:
    """Another file is refused as such."""
    with pytest.raises(BackupRefused, match="not an age file"):
        list(AgeFiles().decrypt(io.BytesIO(b"PK\x03\x04"), [key_pair()[1]]))


def test_another_key_is_a_wrong_key() -> None:
    """The error says that the key doesn't fit, not that the backup is damaged; no key is in its words."""
    other = key_pair()[1]
    with pytest.raises(UsageError, match="matches no recipient") as caught:
        list(AgeFiles().decrypt(io.BytesIO(sealed(key_pair()[0], iter([TEXT]))), [other]))
    assert not isinstance(caught.value, BackupRefused)
    assert other not in caught.value.message + caught.value.remedy


def test_what_is_no_key_is_refused() -> None:
    """Neither a recipient nor an identity that isn't one reaches the file."""
    with pytest.raises(UsageError, match="age public key"):
        sealed("age1nonsense", iter([b"x"]))
    with pytest.raises(UsageError, match="age private key"):
        list(AgeFiles().decrypt(io.BytesIO(b""), ["nonsense"]))


def test_the_streams_own_error_is_raised() -> None:
    """A connection that breaks while a backup is written is reported as that."""

    def broken() -> Iterator[bytes]:
        yield TEXT
        raise HostError("controller-1: the connection broke")

    with pytest.raises(HostError, match="the connection broke"):
        sealed(key_pair()[0], broken())


def test_who_has_enough_may_stop() -> None:
    """A reader that stops early leaves no thread behind that waits for it."""
    public, private = key_pair()
    chunks = AgeFiles().decrypt(io.BytesIO(sealed(public, iter([TEXT * 10]))), [private])
    assert next(chunks)
    chunks.close()  # type: ignore[attr-defined]  # it is a generator
