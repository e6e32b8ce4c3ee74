"""What an instance says of itself: health checks and metrics."""
