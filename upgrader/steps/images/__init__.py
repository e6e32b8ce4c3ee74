"""Images on their nodes before a run starts them: pulled, or imported from a bundle."""
