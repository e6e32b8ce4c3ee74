"""Asks the API all the while, as its clients do, and counts what fails.

- `probe.py`: the parent's side: starts the prober, tells it what is going on, follows its counts
- `prober.py`: a process of its own, in one thread; `schedule.py`: whose turn it is
- `clients.py`: fresh and kept connections, over `encode.py`, `http1.py`, `http2.py` and `stream.py`
- `policy.py`: what a client does when a try fails; `tally.py`, `histogram.py`: counts and latencies
- `watch.py`: long watches; `continuity.py`: what they missed
- `guard.py`, `phases.py`: a run under the prober's watch
"""
