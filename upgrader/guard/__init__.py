"""What stays in the cluster: it rolls by zones, detaches nodes, and refuses the deletion that is one too many."""
