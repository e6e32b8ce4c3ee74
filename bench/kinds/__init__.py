"""What bench/results/kinds.json and docs/reference/supported.md say of kinds of clusters, and labs that show it."""
