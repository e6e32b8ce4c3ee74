"""What is sent to a controller: it uses the standard library only, and what `upgrader.recover.onhost` has."""
