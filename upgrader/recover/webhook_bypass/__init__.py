"""Switches guard's webhooks off if they block a run, and on again once they answer."""
