"""The runs of a cluster: their journals in this folder, in the cluster and on its controllers."""
