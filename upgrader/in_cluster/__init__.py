"""What runs in a cluster, in images of its own: the pod-checkpointer, guard, and what they share."""
