"""What is sent to a controller: it uses the standard library only, and what `upgrader.onhost.facts` has."""
