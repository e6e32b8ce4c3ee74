"""Programs sent to a controller for a backup or a restore, with `upgrader.onhost.facts` and `upgrader.onhost.node`.
Standard library only, as there.
"""
