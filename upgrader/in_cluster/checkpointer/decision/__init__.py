"""The pure core: which files there should be. No I/O."""
