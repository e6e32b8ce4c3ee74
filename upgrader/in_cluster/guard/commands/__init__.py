"""The command line, and the process that it starts."""
