"""The outside world behind the ports: Helm, the Kubernetes API, SSH, Ansible, the clock."""
