"""The roles of guard: one file for each webhook path or controller, and the HTTPS server that the webhooks share."""
