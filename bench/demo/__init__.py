"""`make demo`: what it will do, a recording while it builds, and then the real thing."""
