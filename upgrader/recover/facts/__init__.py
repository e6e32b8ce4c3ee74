"""What the controllers report, read over SSH."""
