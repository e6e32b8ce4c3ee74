"""`python3 -m upgrader.in_cluster.guard`."""

import sys

from upgrader.in_cluster.guard.commands.entry import main

if __name__ == "__main__":
    sys.exit(main())
