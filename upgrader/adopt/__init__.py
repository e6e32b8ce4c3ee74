"""Moves a kubeadm static-pod control plane into the charts, and back: as a pipeline like any other, with gates and
rollback.
"""
