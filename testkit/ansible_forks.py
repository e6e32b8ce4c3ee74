"""Inventories that are read by forks of one process, in which Ansible is imported once.

To import Ansible is most of what it takes to read an inventory, and more than a hundred unit tests read one.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import IO, Any

__all__ = ["AnsibleForks", "serve"]


class AnsibleForks:
    """Stands in for the module `subprocess` in `upgrader.config.inventory`, which runs one program with it.

    In a fork, the same program does the same. Ansible reads its settings when it is imported: where a test has others
    in the environment, the program itself is run.
    """

    DEVNULL = subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self) -> None:
        self._usual = _settings(os.environ)
        self._folder = tempfile.TemporaryDirectory()
        self._empty = Path(self._folder.name, "ansible.cfg")
        self._empty.touch()
        self._processes: dict[frozenset[tuple[str, str]], _Forking] = {}
        self._lock = threading.Lock()  # a command reads its inventory in a thread

    def run(
        self, command: Sequence[str], *, env: Mapping[str, str], check: bool, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run`."""
        configured = Path(env.get("ANSIBLE_CONFIG", self._empty))
        if _settings(os.environ) != self._usual or configured.read_bytes():
            done: subprocess.CompletedProcess[str] = subprocess.run(command, env=env, check=check, **more)
            return done
        if "ANSIBLE_HOME" in env:  # a new folder for each reading, of which only the empty file is read
            env = {**env, "ANSIBLE_CONFIG": str(self._empty), "ANSIBLE_HOME": self._folder.name}
        with self._lock:
            settings = frozenset(_settings(env).items())
            if settings not in self._processes:
                self._processes[settings] = _Forking(command, env)
            return self._processes[settings].run(command, env)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.close()
        self._folder.cleanup()


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What Ansible reads of an environment when it is imported."""
    return {name: value for name, value in environment.items() if name.startswith("ANSIBLE_") or name == "HOME"}


class _Forking:
    """The process that has imported Ansible, with some settings."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        (asked, ask), (answer, answered) = os.pipe(), os.pipe()
        python, isolated, program, _ = command
        words = [python, isolated, "-c", f"from {__name__} import serve; serve({asked}, {answered})", program]
        here = {**env, "PYTHONPATH": str(Path(__file__).parents[1])}
        self._process = subprocess.Popen(words, env=here, stdin=subprocess.DEVNULL, pass_fds=(asked, answered))
        os.close(asked)
        os.close(answered)
        self._ask, self._answer = os.fdopen(ask, "w"), os.fdopen(answer)

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        print(json.dumps([command[-1], dict(env)]), file=self._ask, flush=True)
        code, output, errors = json.loads(self._answer.readline())
        return subprocess.CompletedProcess(command, code, output, errors)

    def close(self) -> None:
        self._ask.close()
        self._answer.close()
        self._process.wait()


def serve(asked: int, answered: int) -> None:
    """In that process: import what the program imports, and answer each line with what a fork of it says."""
    import ansible.cli  # type: ignore[import-untyped]
    import ansible.inventory.manager  # type: ignore[import-untyped]
    import ansible.vars.manager  # type: ignore[import-untyped]  # noqa: F401 - with all that these import

    import upgrader.model.redaction.patterns  # noqa: F401

    spec = spec_from_file_location("ansible_facts", sys.argv[1])
    assert spec is not None and spec.loader is not None
    program = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(program)
    gc.freeze()
    with os.fdopen(asked) as asks, os.fdopen(answered, "w") as answers:
        for line in asks:
            options, env = json.loads(line)
            with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
                child = os.fork()
                if not child:
                    _be(program.main, options, env, output, errors)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                output.seek(0)
                errors.seek(0)
                print(json.dumps([code, output.read(), errors.read()]), file=answers, flush=True)


def _be(main: Any, options: str, env: Mapping[str, str], output: IO[str], errors: IO[str]) -> None:
    """The program, until its end."""
    code = 0
    try:
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        os.chdir("/")
        os.environ.clear()
        os.environ.update(env)
        main([options])
    except SystemExit as error:
        code = 1
        print(error, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as Python ends a program
        code = 1
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
