"""`python3 -m upgrader.guard`."""

import sys

from upgrader.guard.commands.entry import main

if __name__ == "__main__":
    sys.exit(main())
