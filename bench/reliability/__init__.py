"""How runs with a fault end, for each fault at each moment, on a real cluster."""
