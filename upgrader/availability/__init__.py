"""Asks the API all the while, as its clients do, and counts what fails.

    probe.py       the parent's side: starts the prober, tells it what is going on, follows its counts
    prober.py      a process of its own, in one thread: what is asked when, of whom
    schedule.py    whose turn it is           policy.py      what a client does when a try fails
    clients.py     fresh and kept connections tally.py       counts, by phase and by kind
    http1.py, http2.py, stream.py             histogram.py   latencies
    watch.py       long watches               continuity.py  what they missed
"""
