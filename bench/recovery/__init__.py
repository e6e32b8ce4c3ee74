"""How long a control plane is away, by what took it away: measured from outside, on real local clusters."""
