"""What the API server and the node report now: every source either answers or is unknown."""
