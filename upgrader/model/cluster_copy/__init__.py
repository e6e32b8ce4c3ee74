"""A copy of a cluster's shape, by an allow-list of fields, from which a lab like it can be made. Pure."""
