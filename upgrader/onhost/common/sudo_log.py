"""Whether the sudo that has started this program would keep what passes through it: the cluster's data, in clear."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from upgrader.onhost.common.questions import Failed

__all__ = ["require_no_log"]

_SECONDS = 30.0
_RULES = " may run the following commands on "
_OF_OTHERS = "Runas and Command-specific defaults"
_SAID = {
    "input": re.compile(r"(?<!\w)(!|NO)?(?:log_input|log_stdin|LOG_INPUT)(?!\w)"),
    "output": re.compile(r"(?<!\w)(!|NO)?(?:log_output|log_stdout|LOG_OUTPUT)(?!\w)"),
}
"""Settings, and tags of a rule, as sudoers(5) has them. The last one decides."""


def main(stream: str) -> None:
    """Print an empty answer, or why it `failed`, as `require_no_log` has it."""
    try:
        require_no_log(stream)
        answer = {}
    except Failed as error:
        answer = {"failed": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")


def require_no_log(stream: str) -> None:
    """Raise Failed if sudo logs the `stream` of its user's commands: `input` or `output`. Without sudo, nothing does.

    It is asked what it allows. A sudo that answers nothing, or not with its settings, is not refused.
    """
    user = os.environ.get("SUDO_USER", "")
    if user and _logs(stream, _listed(user)):
        raise Failed(
            f"sudo logs the {stream} of {user}'s commands on this host (log_{stream}), so the cluster's Secrets and "
            "keys would stay in its log. Log in as root, or install the rule that `upgrader init --sudoers` writes. "
            "Nothing was sent"
        )


def _logs(stream: str, listed: str) -> bool:
    settings, _, rules = listed.partition(_RULES)
    last = rules.strip().rpartition("\n")[2]
    said = _SAID[stream].findall(settings.partition(_OF_OTHERS)[0]) + _SAID[stream].findall(last)
    return bool(said) and not said[-1]


def _listed(user: str) -> str:
    command = ["sudo", "-n", "-l", "-U", user]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
