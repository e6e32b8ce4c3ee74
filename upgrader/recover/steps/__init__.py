"""The steps that follow once there is an API: the release's rollback, and the hand-over to its own pods."""
