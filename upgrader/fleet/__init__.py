"""Many clusters in one campaign: stages, budgets, windows and approvals; each cluster's run is `upgrader run`."""
