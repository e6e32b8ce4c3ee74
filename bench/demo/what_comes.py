"""Says what `make demo` will do, and how long that will take, before it begins: `what_comes.py FROM TO`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from bench.demo.parts import described, is_cached, parts
from upgrader.lab.release_hosts import PROGRAMS, REGISTRY, asked

__all__ = ["main"]


def main(start: str, target: str, asked: Callable[[], Callable[[], str]] = asked) -> None:
    """Print it; `asked` asks the hosts of Kubernetes' release, if it isn't in the cache."""
    print(
        f"A real Kubernetes cluster on this machine, upgraded from {start} to {target} while clients use it.",
        flush=True,
    )
    why_not = ""
    if missing := [version for version in dict.fromkeys((start, target)) if not is_cached(version)]:
        why_not = asked()()
        # As `lab up` says it.
        way = f"built from source, because {why_not}" if why_not else f"downloaded from {PROGRAMS} and {REGISTRY}"
        print(f"Kubernetes {', '.join(missing)}: {way}.")
    print(*described(parts(start, target, Path(__file__).parents[2], from_source=bool(why_not))), sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
