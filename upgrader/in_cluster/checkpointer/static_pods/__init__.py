"""A pod of the API → a static pod that needs no API."""
