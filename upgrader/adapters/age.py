"""age encryption with pyrage, streamed in both directions: neither side is ever wholly in memory or on disk."""

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
                    "the identity matches no recipient: the backup was encrypted for other keys", remedy=_IDENTITY
                ) from error
            raise BackupRefused(f"not an age file, or its header is damaged: {error}") from error
        except OSError as error:
            raise BackupRefused(f"the file is damaged or truncated: {error}") from error
        finally:
            sink.stop()
            thread.join()


_RECIPIENT = "Create a key pair with `upgrader backup keygen FILE`, and use the public key that it prints (age1…)."
_IDENTITY = "Use --identity FILE with the private key of one of the recipients (`upgrader backup keygen` wrote it)."


class _Source:
    """A reader over chunks. It keeps the exception that they raised, as pyrage passes on only its text."""

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
    """A writer whose content another thread reads."""

    def __init__(self) -> None:
        self._queue: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self._failure: BaseException | None = None
        self._stopped = threading.Event()

    def write(self, content: bytes) -> int:
        self._put(bytes(content))
        return len(content)

    def flush(self) -> None:
        """Does nothing: no data is buffered."""

    def end(self, failure: BaseException | None) -> None:
        """End the content; `failure` is the reason, if there is one."""
        self._failure = failure
        self._put(None)

    def stop(self) -> None:
        """The reader has stopped: discard further writes."""
        self._stopped.set()

    def chunks(self) -> Iterator[bytes]:
        """The written chunks. Raises the failure that ended them."""
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
