"""guard: the part of upgrader that stays in a cluster and answers for workloads while it is being changed.

It runs as a Deployment of two replicas, from an image of its own. The packages, each of which may import only those
below it:

==================  ======================================================================================
commands            the command line, and the process that joins the rest
roles               what one does: answer admission requests, roll groups of StatefulSets, serve HAProxy
core, runtime       the decisions, pure; what they need of the outside: API, caches, HTTPS, certificates
guard_errors, logs  what can go wrong, and where it is written
==================  ======================================================================================

`core` and `runtime` don't know each other. Of the rest of upgrader the package imports `contract` and
`in_cluster.shared` alone, so that its image stays small.
"""
