"""`kubeadm certs renew` as a run: on each controller in turn, with a rollback; what uses the certificates reloads
them.
"""
