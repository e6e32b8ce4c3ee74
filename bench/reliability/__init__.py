"""How runs end that meet a fault, for each fault at each moment, on a real cluster."""
