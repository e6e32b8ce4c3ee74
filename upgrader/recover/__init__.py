"""Recovery without an API: examine the controllers themselves, report what is wrong, and fix it.

The packages, each of which may import only those below it:

==========  ==============================================================================================
pipeline    a recovery as a pipeline, with the engine, journal and gates of an upgrade
steps       what follows once there is an API: roll back the release, hand over to its own pods
restoring   what to start on which controller next, doing it, and waiting for the API
diagnosis   facts → what is wrong, the cause first
facts       what the controllers report, read over SSH
onhost      the program that is sent to them, with `upgrader.onhost.node`
==========  ==============================================================================================
"""
