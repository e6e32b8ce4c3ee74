"""Switches guard's webhooks off where they stand in the way, and on again once they answer."""
