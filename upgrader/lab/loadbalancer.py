"""The load balancer of a lab with several controllers: HAProxy on a node of its own."""

from __future__ import annotations

from upgrader.lab.spec import Placement

__all__ = ["haproxy_files"]


def haproxy_files(placement: Placement, ca: str) -> dict[str, tuple[str, int]]:
    """Files of lb-1. A controller gets connections only while its `/readyz`, over verified TLS, says 200."""
    servers = "\n".join(
        f"    server {node.name} {node.address}:6443" for node in placement.nodes if node.role == "controller"
    )
    config = f"""defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h

frontend kube-apiserver
    bind :6443
    default_backend controllers

backend controllers
    balance leastconn
    option httpchk
    http-check send meth GET uri /readyz
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
    default-server check check-ssl check-sni kubernetes
    default-server verify required verifyhost kubernetes ca-file /etc/haproxy/ca.crt
{servers}
"""
    return {"/etc/haproxy/lab.cfg": (config, 0o644), "/etc/haproxy/ca.crt": (ca, 0o644)}
