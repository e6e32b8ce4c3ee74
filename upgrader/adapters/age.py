"""age encryption by pyrage, as a stream in both directions: neither side is ever in memory or on disk as a whole."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from upgrader.errors import BackupRefused, UsageError

__all__ = ["AgeFiles"]

_AHEAD = 16
"""Chunks (at most 64 KiB each) that are decrypted before they are asked for."""


class AgeFiles:
    """`ports.Age`."""

    def new_key(self) -> tuple[str, str]:
        import pyrage

        made = pyrage.x25519.Identity.generate()
        return str(made.to_public()), str(made)

    def encrypt(self, plain: Iterator[bytes], recipients: Sequence[str], target: BinaryIO) -> None:
        import pyrage

        try:
            keys = [pyrage.x25519.Recipient.from_str(text) for text in recipients]
        except pyrage.RecipientError as error:
            raise UsageError(f"a recipient is not an age public key: {error}", remedy=_RECIPIENT) from error
        source = _Source(plain)
        try:
            pyrage.encrypt_io(source, target, keys)
        except pyrage.EncryptError:
            if source.failure is not None:
                raise source.failure from None
            raise

    def decrypt(self, sealed: BinaryIO, identities: Sequence[str]) -> Iterator[bytes]:
        import pyrage

        try:
            keys = [pyrage.x25519.Identity.from_str(text) for text in identities]
        except pyrage.IdentityError as error:
            raise UsageError("the identity is not an age private key", remedy=_IDENTITY) from error
        sink = _Sink()

        def work() -> None:
            try:
                pyrage.decrypt_io(sealed, sink, keys)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised by whom it concerns
                sink.end(error)
            else:
                sink.end(None)

        thread = threading.Thread(target=work, name="age", daemon=True)
        thread.start()
        try:
            yield from sink.chunks()
        except pyrage.DecryptError as error:
            if "No matching keys" in str(error):
                raise UsageError(
                    "the identity does not fit: the backup was encrypted for other recipients", remedy=_IDENTITY
                ) from error
            raise BackupRefused(f"it is not an age file, or damaged at its beginning: {error}") from error
        except OSError as error:
            raise BackupRefused(f"it is damaged or cut off: {error}") from error
        finally:
            sink.stop()
            thread.join()


_RECIPIENT = "Make a key pair with `upgrader backup keygen FILE`, and use the public key that it prints (age1…)."
_IDENTITY = "Give the file that `upgrader backup keygen` wrote for one of the recipients: --identity FILE."


class _Source:
    """A reader over chunks; keeps what they raised, of which pyrage passes on only the words."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""
        self.failure: BaseException | None = None

    def read(self, size: int) -> bytes:
        try:
            while not self._rest:
                self._rest = next(self._chunks)
        except StopIteration:
            return b""
        except BaseException as error:
            self.failure = error
            raise
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


class _Sink:
    """A writer whose content another thread takes."""

    def __init__(self) -> None:
        self._queue: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self._failure: BaseException | None = None
        self._stopped = threading.Event()

    def write(self, content: bytes) -> int:
        self._put(bytes(content))
        return len(content)

    def flush(self) -> None:
        """Nothing is held back."""

    def end(self, failure: BaseException | None) -> None:
        """No more comes; `failure` is why."""
        self._failure = failure
        self._put(None)

    def stop(self) -> None:
        """Nobody takes any more."""
        self._stopped.set()

    def chunks(self) -> Iterator[bytes]:
        """What was written. Raises what ended it."""
        while (chunk := self._queue.get()) is not None:
            if chunk:
                yield chunk
        if self._failure is not None:
            raise self._failure

    def _put(self, chunk: bytes | None) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(chunk, timeout=0.1)
            except queue.Full:
                continue
            return
