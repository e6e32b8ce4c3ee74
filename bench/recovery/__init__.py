"""How long a control plane is unreachable, by cause: measured from outside, on real local clusters."""
