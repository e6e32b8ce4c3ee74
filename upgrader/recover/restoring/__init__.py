"""What is done on the controllers, until the API answers."""
