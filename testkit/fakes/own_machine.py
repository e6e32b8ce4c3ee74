"""A machine to run upgrader on, in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from upgrader.ports import CommandResult

__all__ = ["FakeMachine"]


class FakeMachine:
    """`ports.OwnMachine` with the programs, files and disk that a test sets."""

    def __init__(self) -> None:
        self.programs: dict[str, Callable[[tuple[str, ...]], CommandResult]] = {}
        """Name → its output by its arguments."""
        self.modes: dict[Path, int] = {}
        self.free: int | None = 10 << 30

    def answer(self, *command: str) -> CommandResult | None:
        program = self.programs.get(command[0])
        return program(command[1:]) if program else None

    def free_bytes(self, folder: Path) -> int | None:
        return self.free

    def mode(self, file: Path) -> int | None:
        return self.modes.get(file)

    def ssh_refuses(self, key: Path) -> bool:
        return bool(self.modes.get(key, 0) & 0o077)
