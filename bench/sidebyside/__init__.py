"""The ways to upgrade a control plane, side by side: the same lab, versions and load; what clients notice.

- `ways.py`: the ways, each with its upgrade and its bad flag; `kubeadm.py`, `helm.py`: the tools that they use
- `stages.py`: the lab's states at their start, as snapshots
- `observe.py`: load, memory and marks during a trial; `trial.py`: its result
- `page.py`, `plot.py`: all trials as a table and as a picture
"""
