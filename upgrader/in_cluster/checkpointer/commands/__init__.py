"""The command line, for the pod and for an operator on the node."""
