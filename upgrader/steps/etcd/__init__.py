"""Changes the image of etcd's members, one at a time, and puts it back."""
