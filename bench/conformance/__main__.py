"""`make conformance`: Kubernetes' own tests after, during and around `upgrader run`; writes docs/conformance.*"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.conformance.clusters import WORKERS
from bench.conformance.images import made_images
from bench.conformance.one_way import Asked, OneWay
from bench.conformance.page import WAYS, page
from bench.conformance.programs import programs
from bench.conformance.record import Record, merged, ours
from bench.conformance.specs import left_out
from bench.conformance.suite import Suite
from bench.places import results_file
from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, TARGET
from testkit.labs import some_cluster
from upgrader.cli.lab_progress import progress

__all__ = ["main"]


def main() -> int:
    """0 when no spec failed for which upgrader may be the reason, and every run succeeded."""
    options = _options()
    with progress() as display:
        built = programs(options.target, display)
        images = made_images(built, display)
    command = f"python -m bench.conformance {shlex.join(_told())}".strip()
    explain, logs = not options.no_explain, options.logs
    asked = Asked(options.start, options.target, options.focus, options.procs, options.minutes, explain, logs, command)
    good = True
    with some_cluster(options.lab, "conformance", *WORKERS) as cluster:
        for way in options.way:
            if way != "after" and set(cluster.versions().values()) != {options.start}:
                cluster.restore()
            record = OneWay(way, asked, cluster, built, images).run(partial(_write, options, way))
            good &= not ours(record) and not any(change["exit_code"] for change in record["commands"][-1]["changes"])
    return 0 if good else 1


def _write(options: argparse.Namespace, way: str, record: Record) -> None:
    file = results_file(options.out, "conformance.json")
    known = json.loads(file.read_text()) if file.exists() else {}
    of_version = known.setdefault(options.target, {})
    of_version[way] = merged(of_version.get(way), record)
    file.write_text(json.dumps(known, indent=1) + "\n")
    (options.out / "conformance.md").write_text(page(known, left_out()["remarks"]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("way", nargs="*", default=["during", "after", "around"], metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--from", dest="start", default=OLD, help="Kubernetes version of the new cluster")
    parser.add_argument("--to", dest="target", default=TARGET, help="version to upgrade it to, and of the tests")
    parser.add_argument("--focus", default="", metavar="REGEX", help="only specs whose name has a match")
    parser.add_argument("--procs", type=int, default=4, help="how many specs are at work at once")
    parser.add_argument("--minutes", type=float, default=Suite.minutes, help="of each way; what isn't done is not run")
    parser.add_argument("--no-explain", action="store_true", help="don't run failed specs again, here and elsewhere")
    parser.add_argument(
        "--lab", type=Path, metavar="FOLDER", help="an adopted lab with two workers, saved as `adopted`"
    )
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs", help="folder of the page")
    parser.add_argument("--logs", type=Path, default=None, metavar="FOLDER", help="where the tests' logs are kept")
    options = parser.parse_args()
    unknown = set(options.way) - set(WAYS)
    if unknown:
        parser.error(f"no way is called {', '.join(sorted(unknown))}: there are {', '.join(WAYS)}")
    options.logs = (options.logs or Path(tempfile.mkdtemp(prefix="conformance-"))).resolve()
    return options


def _told() -> list[str]:
    """The command's arguments, without paths, which are this machine's."""
    told, words = [], iter(sys.argv[1:])
    for word in words:
        if word in ("--lab", "--out", "--logs"):
            next(words, None)
        elif not word.startswith(("--lab=", "--out=", "--logs=")):
            told.append(word)
    return told


if __name__ == "__main__":
    sys.exit(main())
