"""What is sent to a controller to change the image of its member of etcd: the standard library only."""
