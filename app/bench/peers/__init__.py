"""Scripts that run another engine in a process and an environment of its own. `peer_main.py NAME` is started by path,
with that environment's Python: nothing here imports anything of ours, only the standard library and the engine."""
