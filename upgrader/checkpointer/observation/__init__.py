"""What the API server and the node say now: every source either answers or is unknown."""
