"""The fields of ConfigMap `kubelet-config`, for nodes that join later."""
