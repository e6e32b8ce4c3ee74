"""The step that upgrades the nodes of a pool: cordon, drain, swap, wait, uncordon; and the same way back."""
