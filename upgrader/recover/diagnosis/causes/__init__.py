"""What can keep kube-apiserver from serving on a controller: one module for each layer, the deepest cause first."""
