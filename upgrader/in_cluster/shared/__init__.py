"""What the programs that run in a cluster share: the pod-checkpointer and guard.

It stands below both and needs nothing but the standard library, so that each program's image has only its own package,
this one, and what else it names.
"""
