"""Text of others, made fit to be shown and kept: secrets masked, control characters replaced.

Every sink uses it (terminal, CI log, journal); so what reaches a sink by a path that nobody thought of is masked too.
"""
