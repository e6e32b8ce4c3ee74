"""`python -m upgrader`."""

from upgrader.cli.main import main

main()
