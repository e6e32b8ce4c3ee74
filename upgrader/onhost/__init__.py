"""Programs that are sent to hosts over SSH (standard library only, from Python 3.8 on), and `sending`, which sends them
and reads their answers.
"""
