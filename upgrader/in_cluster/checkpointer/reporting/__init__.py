"""What an instance reports of itself: health checks and metrics."""
