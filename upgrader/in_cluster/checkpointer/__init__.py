"""The pod-checkpointer: keeps last-known-good generations of a controller's own control-plane pods on its disk, and
starts them as standby pods when the API is unreachable.

It runs as a DaemonSet on controllers, plus a static pod made of itself. One of the two acts at a time, by a lock on the
node. The packages, each of which may import only those below it:

==================  ======================================================================================
commands            the command line: `run`, and what an operator on the node needs
loop                lock, observe, decide, check, apply; once every interval
decision            the pure core: what has been so for how long → which files there should be; its invariants
observation         one observation of the API server and of the node; both answer "unknown" rather than guess
reporting           what an instance reports of itself: health checks and metrics
storage             generations on disk, and the manifests that the kubelet reads
static_pods         a pod → a static pod that needs no API
observed_values     the values that these share; beside them checkpointer_errors and logs
==================  ======================================================================================

`decision`, `observation` and `reporting` don't know each other: `loop` hands values from one to the next. Of the rest
of upgrader the package imports `contract`, `onhost.node` and `in_cluster.shared` alone, so that its image stays small.
"""
