"""What guard costs those who ask it: on one etcd and one API server, without kubelets or controllers."""
