"""What upgrader does, as a library: each use case for a command line, a Job, a server or a test to call.

A use case returns what it found or proposes as frozen values, and acts on request; it neither prints nor asks.
`wiring.py` is the composition root.
"""
