"""What bench/results/kinds.json and docs/kinds.md say of kinds of clusters, and labs that show it."""
