"""`python3 -m upgrader.in_cluster.checkpointer`."""

import sys

from upgrader.in_cluster.checkpointer.commands.entry import main

if __name__ == "__main__":
    sys.exit(main())
