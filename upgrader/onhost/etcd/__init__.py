"""Programs sent to a controller to change the image of its etcd member: the standard library only."""
