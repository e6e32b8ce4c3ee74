"""Local real clusters: systemd-nspawn nodes on this machine with kubeadm's Kubernetes on them."""
