"""The version in ConfigMap `kubeadm-config`."""
