"""The way back when the API is gone: look at the machines themselves, say what is wrong, and mend it."""
