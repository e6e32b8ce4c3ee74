"""What is told of a run: its reports, and its metrics, Events and traces."""
