"""Says what `make demo` will do, and how long that will take, before it begins: `what_comes.py FROM TO`."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.demo.parts import described, parts

__all__ = ["main"]


def main(start: str, target: str) -> None:
    """Print it."""
    print(f"A real Kubernetes cluster on this machine, upgraded from {start} to {target} while clients use it:")
    print(*described(parts(start, target, Path(__file__).parents[2])), sep="\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
