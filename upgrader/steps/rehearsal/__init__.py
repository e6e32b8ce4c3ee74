"""A rehearsal: the running and the planned kube-apiserver on copies of the data, where they reach nothing."""
