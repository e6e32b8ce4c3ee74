"""The pod-checkpointer: keeps last-known-good copies of a controller's own control-plane pods, and starts them when the
API is away.

It runs as a DaemonSet on controllers plus a static copy of itself. One of the two acts at a time, by a lock on the
node.

=============  ==========================================================================================
decide         the pure core: what was observed → which files there should be
history        folds observations into durations, by a clock that can't jump
observe        one look at the API server and at the container runtime
api, cri       the two sources; both say "unknown" rather than guess
sanitise       a pod → a static pod that needs no API
store          generations on disk, and the manifests that the kubelet reads
loop           lock, observe, decide, apply; once every interval
=============  ==========================================================================================

The package imports nothing else of upgrader, so that its image stays small.
"""
