"""The load balancer of a lab, HAProxy on a node of its own: before several controllers, and before the workers."""

from __future__ import annotations

from upgrader.lab.spec import Placement, bracketed

__all__ = ["HEALTH_PORT", "INGRESS_PORT", "haproxy_files"]

INGRESS_PORT, HEALTH_PORT = 8080, 10080
"""For each worker: where its ingress answers, and the health check (200) for the load balancer."""
_DEFAULTS = """global
    stats socket /run/haproxy/admin.sock mode 660 group haproxy level admin

defaults
    mode tcp
    timeout connect 2s
    timeout check 5s
    timeout client 1h
    timeout server 1h
    retries 3
    option redispatch 1
    option srvtcpka
    srvtcpka-idle 5s
    srvtcpka-intvl 1s
    srvtcpka-cnt 3
    balance leastconn
    default-server tcp-ut 5s
"""


def haproxy_files(placement: Placement, ca: str) -> dict[str, tuple[str, int]]:
    """Files of lb-1."""
    parts = [_DEFAULTS]
    if placement.spec.balanced:
        parts.append(_controllers(placement))
    if placement.spec.ingress:
        parts.append(_workers(placement))
    return {"/etc/haproxy/lab.cfg": ("\n".join(parts), 0o644), "/etc/haproxy/ca.crt": (ca, 0o644)}


def _controllers(placement: Placement) -> str:
    """A controller gets new connections only while its `/readyz`, over verified TLS, answers 200.

    Slow is not dead. A controller that fails its checks keeps its connections: they are cut only when its machine stops
    answering, which TCP detects (tcp-ut, srvtcpka). If all controllers fail their checks, all are used: a slow answer
    is better than none. Checks with a timeout of a second that cut connections caused outages whenever the controllers
    were busy: 707 of 2,224 requests failed during one adoption.
    """
    port = placement.spec.port
    controllers = [node for node in placement.nodes if node.role == "controller"]
    checked = "\n".join(f"    server {node.name} {bracketed(node.address)}:{port} check" for node in controllers)
    unchecked = "\n".join(f"    server {node.name} {bracketed(node.address)}:{port}" for node in controllers)
    bind = f"[::]:{port}" if placement.spec.ipv6 else f":{port}"
    return f"""frontend kube-apiserver
    bind {bind}
    use_backend any if {{ nbsrv(ready) eq 0 }}
    default_backend ready

backend ready
    option httpchk
    http-check send meth GET uri /readyz
    http-check expect status 200
    default-server inter 2s fastinter 1s fall 3 rise 1
    default-server check-ssl check-sni kubernetes
    default-server verify required verifyhost kubernetes ca-file /etc/haproxy/ca.crt
{checked}

backend any
{unchecked}
"""


def _workers(placement: Placement) -> str:
    """A worker gets requests while its health port answers 200. No request is retried, neither on another worker nor on
    the same one: clients see exactly what the workers answer.
    """
    workers = [node for node in placement.nodes if node.role == "worker"]
    servers = "\n".join(
        f"    server {node.name} {node.address}:{INGRESS_PORT} check port {HEALTH_PORT}" for node in workers
    )
    return f"""frontend ingress
    mode http
    bind :80
    default_backend ingress

backend ingress
    mode http
    balance roundrobin
    retries 0
    no option redispatch
    option httpchk GET /
    default-server inter 1s fall 2 rise 1
{servers}
"""
