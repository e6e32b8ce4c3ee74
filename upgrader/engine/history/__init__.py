"""The runs of a cluster: their journals here, in the cluster and on its controllers."""
