"""The ways to upgrade a control plane, side by side: the same lab, versions and load; what clients notice of each.

- `ways.py`: the ways, each with its upgrade and its bad flag; `kubeadm.py`, `helm.py`: the tools that they use
- `stages.py`: the states of the lab that they begin from, as snapshots
- `observe.py`: load, memory and marks while something happens; `trial.py`: what came of it
- `page.py`, `plot.py`: all trials as a table and as a picture
"""
