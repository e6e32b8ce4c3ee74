"""Text from others, made safe to show and store: secrets masked, control characters replaced.

Every sink uses it (terminal, CI log, journal), so text that reaches a sink by an unexpected path is masked too.
"""
