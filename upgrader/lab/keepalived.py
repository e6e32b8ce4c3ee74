"""`lab up --vip` with several controllers: keepalived gives one of them the virtual IP, as in kubeadm's guide. Pure.

https://github.com/kubernetes/kubeadm/blob/main/docs/ha-considerations.md#keepalived-configuration
"""

from __future__ import annotations

from upgrader.lab.spec import Node, Placement

__all__ = ["CHECK", "keepalived_files"]

CHECK = "/etc/keepalived/check_apiserver.sh"
"""Whether this controller's kube-apiserver is healthy."""
_PRIORITY = 101


def keepalived_files(placement: Placement, node: Node, password: str) -> dict[str, tuple[str, int]]:
    """Files of one of several controllers. The first controller has the address while its kube-apiserver is healthy.

    Advertisements go to the other controllers by unicast, as some bridges filter multicast.
    """
    controllers = [each for each in placement.nodes if each.role == "controller"]
    first = node == controllers[0]
    peers = "\n".join(f"        {each.address}" for each in controllers if each != node)
    config = f"""global_defs {{
    router_id {node.name}
    enable_script_security
    script_user root
}}

vrrp_script check_apiserver {{
    script "{CHECK}"
    interval 3
    weight -2
    fall 10
    rise 2
}}

vrrp_instance kube-apiserver {{
    state {"MASTER" if first else "BACKUP"}
    interface host0
    virtual_router_id 51
    priority {_PRIORITY if first else _PRIORITY - 1}
    unicast_src_ip {node.address}
    unicast_peer {{
{peers}
    }}
    authentication {{
        auth_type PASS
        auth_pass {password}
    }}
    virtual_ipaddress {{
        {placement.endpoint_address}/32
    }}
    track_script {{
        check_apiserver
    }}
}}
"""
    url = f"https://localhost:{placement.spec.port}/healthz"
    check = f"#!/bin/sh\nexec curl -sfk --max-time 2 {url} -o /dev/null\n"
    return {"/etc/keepalived/keepalived.conf": (config, 0o600), CHECK: (check, 0o755)}
