"""guard's promises under the faults that once broke them, again and again: a silent watch, clocks, a prepared pod."""
