"""Programs sent to a controller: they use only the standard library and `upgrader.onhost.facts`."""
