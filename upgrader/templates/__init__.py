"""What is rendered from templates: the text in them is ours, and the values are others'."""
