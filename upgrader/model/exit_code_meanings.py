"""The exit codes of all commands: what each means, the state of the cluster, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXIT_CODES", "ExitCode"]


@dataclass(frozen=True)
class ExitCode:
    """One exit code, in Markdown; `docs/troubleshooting.md` shows them as a table."""

    code: int
    meaning: str
    cluster: str
    remedy: str = ""


EXIT_CODES = (
    ExitCode(
        0,
        "done",
        "at the target (`plan`, `check`: ready to run; `check --offline`: without the cluster)",
    ),
    ExitCode(1, "a bug of `upgrader`", "unknown", "report it, with the run's folder"),
    ExitCode(
        2,
        "the command line, a file or the environment is wrong",
        "unchanged",
        "fix the file, line and key in the message",
    ),
    ExitCode(
        3,
        "a check blocks the run (`check --offline`: the folder has errors, or can't be checked), or `run --plan`: the "
        "saved plan no longer matches the cluster or the inputs",
        "unchanged",
        "fix the checks marked `error` or `unknown`, or what the message names, then `plan` again",
    ),
    ExitCode(
        4,
        "a step failed and was rolled back, or failed before anything was changed",
        "the rollback's gates passed; or unchanged",
        "read the cause, fix it, run the same command again",
    ),
    ExitCode(
        5,
        "manual action required",
        "check it first",
        "the message; `runs/RUN/report.html`; [troubleshooting](troubleshooting.md#exit-code-5-manual-action-required)",
    ),
    ExitCode(
        6,
        "another run is active on this cluster",
        "changing",
        "wait; `upgrader status` shows what it is doing",
    ),
    ExitCode(
        7,
        "`recover --dry-run`: there is something to recover; `plan --detailed-exitcode`: a run would change something",
        "unchanged",
        "`upgrader recover`; `upgrader run`, at a convenient time",
    ),
    ExitCode(
        130,
        "interrupted, or a prompt was declined",
        "see `upgrader status`",
        "`upgrader resume` or `upgrader rollback` ([more](resume.md))",
    ),
)
