"""Probes the API as its clients use it, and counts what fails.

- `prober_control.py`: the parent's side: starts the prober, tells it which phase a run is in, follows its counts
- `prober.py`: a process of its own, in one thread; `schedule.py`: which client asks next
- `http_clients.py`: fresh and kept connections, over `http1.py`, `http2.py` and `tls_stream.py`
- `http_exchange.py`, `request_encoder.py`, `api_endpoint.py`: requests, answers, and where they go
- `retry_policy.py`: what a client does when a try fails; `tally.py`, `histogram.py`: counts and latencies
- `samples.py`: the same by seconds; `series_file.py`: where a run keeps them, for the curves of its report
- `long_watch.py`: long watches; `watch_continuity.py`: what they missed
- `guard.py`, `phases.py`: a run whose steps the prober judges
"""
