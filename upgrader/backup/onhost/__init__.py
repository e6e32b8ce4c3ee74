"""What is sent to a controller for a backup or a restore, with `upgrader.recover.onhost` and `upgrader.node`.

Standard library only, as there.
"""
