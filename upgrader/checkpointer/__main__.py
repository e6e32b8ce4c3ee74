"""``python3 -m upgrader.checkpointer``."""

import sys

from upgrader.checkpointer.cli import main

if __name__ == "__main__":
    sys.exit(main())
