"""A bundle: one file with the images and charts of an upgrade, for sites without a registry."""
