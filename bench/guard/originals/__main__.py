"""Run guard and its originals through the same cases; writes docs/guard-comparison.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.guard.originals.case import Case
from bench.guard.originals.measured import MEASURES
from bench.guard.originals.page import Compared, page
from bench.guard.originals.programs import Upstream, certificate
from bench.guard.originals.protector_cases import PROTECTOR_CASES
from bench.guard.originals.side import Side, guards, originals
from bench.guard.originals.zone_cases import ZONE_CASES
from bench.places import results_file
from testkit.command import REPOSITORY
from upgrader.errors import UpgraderError
from upgrader.lab.build_cache import cache_root

__all__ = ["TABLES", "main"]

TABLES = {
    "Zones": ("rollout-operator", ZONE_CASES),
    "Deletions": ("Podseidon", PROTECTOR_CASES),
    "Times": ("original", MEASURES),
}
_FAILED = (AssertionError, LookupError, UpgraderError, TimeoutError, OSError, RuntimeError)


def main() -> int:
    """0 when each case could be run on both sides."""
    options = _parser().parse_args()
    versions = {
        "rollout-operator": options.rollout_operator_version or _version(options.rollout_operator),
        "podseidon": options.podseidon_version or _version(options.podseidon),
    }
    options.programs.mkdir(parents=True, exist_ok=True)
    upstream = Upstream(options.rollout_operator.resolve(), options.podseidon.resolve(), options.programs.resolve())
    results: Path = results_file(options.out, "guard-originals.json")
    seen = _earlier(results) if options.only else {}
    failed = 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for name in ("original", "guard"):
            (Path(folder) / name).mkdir()
        tls = certificate(Path(folder))
        theirs = stack.enter_context(originals(Path(folder) / "original", tls, upstream))
        ours = stack.enter_context(guards(Path(folder) / "guard", tls))
        for case in _wanted(options.only):
            answers = [_run(case, side) for side in (theirs, ours)]
            failed += sum(answer is None for answer in answers)
            original, guard = (answer or "" for answer in answers)
            seen[case.key] = Compared(original, guard, f"{datetime.now(UTC):%Y-%m-%d}")
            _write(options.out, results, seen, versions)  # after each, as it may be interrupted
    return 1 if failed else 0


def _run(case: Case, side: Side) -> str | None:
    try:
        answer = case.run(side)
    except _FAILED as error:
        print(f"{case.key}, {side.title}: FAILED: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return None
    print(f"{case.key}, {side.title}: {answer}", file=sys.stderr, flush=True)
    return answer


def _wanted(only: list[str] | None) -> list[Case]:
    return [case for _, cases in TABLES.values() for case in cases if not only or case.key in only]


def _earlier(results: Path) -> dict[str, Compared]:
    if not results.exists():
        return {}
    return {key: Compared(**each) for key, each in json.loads(results.read_text()).items()}


def _write(out: Path, results: Path, seen: Mapping[str, Compared], versions: Mapping[str, str]) -> None:
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps({key: asdict(each) for key, each in seen.items()}, indent=2) + "\n")
    (out / "guard-comparison.md").write_text(page(TABLES, seen, versions))


def _version(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--tags", "--always"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.guard.originals", description=__doc__)
    keys = [case.key for _, cases in TABLES.values() for case in cases]
    parser.add_argument("--rollout-operator", type=Path, required=True, metavar="CHECKOUT", help="of its repository")
    parser.add_argument("--podseidon", type=Path, required=True, metavar="CHECKOUT", help="of its repository")
    parser.add_argument("--rollout-operator-version", metavar="V", help="of the checkout (default: what git says)")
    parser.add_argument("--podseidon-version", metavar="V", help="of the checkout (default: what git says)")
    parser.add_argument(
        "--programs", type=Path, default=cache_root() / "guard-originals", metavar="FOLDER", help="of what is built"
    )
    parser.add_argument("--only", nargs="+", choices=keys, metavar="CASE", help=f"keep the others: {', '.join(keys)}")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs", metavar="FOLDER", help="of the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
