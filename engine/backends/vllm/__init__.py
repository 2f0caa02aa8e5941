"""The vLLM body: real vLLM in this process, told at each token boundary who runs and where KV lives.

hooks.py prepares and checks the installation, scheduler.py is vLLM's scheduler with a plan from outside, worker.py the
copies beside the model, slab.py the books of the host pool, backend.py the verbs, build.py puts them together. Nothing
here is imported unless this backend is chosen.
"""
