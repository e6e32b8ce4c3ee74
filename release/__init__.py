"""Makes what people install, from a checkout: `make dist`. The same sources make the same bytes, in any folder."""
