"""The program of a rehearsal, which is sent to the controller that has the data. Standard library only, as in
`upgrader.onhost.facts`.
"""
