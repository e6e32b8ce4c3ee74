"""What is decided, from frozen state: no I/O, no clock, nothing but the standard library.

Times are seconds since the epoch, in UTC, and always an argument.
"""
