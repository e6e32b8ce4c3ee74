"""guard beside grafana/rollout-operator and kubewharf/podseidon: the same cases, each on an API server of its own."""
