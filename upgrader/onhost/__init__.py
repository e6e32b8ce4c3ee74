"""What is sent to hosts over SSH (standard library only, from Python 3.8 on), and `sending`,
which sends it and reads its answers.
"""
