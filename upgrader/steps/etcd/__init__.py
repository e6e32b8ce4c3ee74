"""Changes the image of etcd's members, one after the other, and puts it back."""
