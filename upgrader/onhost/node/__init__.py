"""Code that runs on a controller: the rules for checkpoints there, and queries of the container runtime.

Two programs follow these rules and must never differ: the pod-checkpointer, whose image has this package, and
`upgrader recover`, which sends it over SSH to a bare `python3 -` when the API is unreachable. So: Python's standard
library only, from 3.8 on, which every machine that Ansible manages has; and only reading, as writing and transport
differ between the two.

=================  =======================================================================================
labels             labels, annotations and file names that pods, charts and files share
workload_policy    what a checkpoint belongs to, and when it is started
disk_layout        where generations and manifests lie, and whose a manifest is
generation         one generation: its record, and whether it is still as it was written
generation_choice  which generation to start, and which is the last-known-good
disk_inventory     all that a node keeps, every generation verified
cri, protobuf      what the container runtime reports, over any transport
=================  =======================================================================================
"""
