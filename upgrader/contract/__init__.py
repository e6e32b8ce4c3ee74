"""What the runner, guard and the pod-checkpointer agree on: labels, annotations, times, and how a long list is read."""
