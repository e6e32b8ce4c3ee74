"""What is sent to a controller to renew its certificates: Python's standard library only, from 3.8 on.

Nothing of `/etc/kubernetes` is changed before all new files are there, each key fits its certificate, and the old files
are kept on the disk.
"""
