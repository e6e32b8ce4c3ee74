"""Programs sent to a controller to renew its certificates: Python's standard library only, from 3.8 on.

`/etc/kubernetes` is changed only once all new files exist, each key matches its certificate, and the old files are
saved on the disk.
"""
