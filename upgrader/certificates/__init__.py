"""`kubeadm certs renew` as a run: on each controller in turn, with a way back, and what must read them again does."""
