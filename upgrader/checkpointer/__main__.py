"""`python3 -m upgrader.checkpointer`."""

import sys

from upgrader.checkpointer.commands.entry import main

if __name__ == "__main__":
    sys.exit(main())
