"""The bake: a run's end, at which all its gates are held for a while."""
