"""What people and their monitoring see of a campaign: a page, a calendar, metrics. Rendered from its state."""
