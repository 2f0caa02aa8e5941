"""The tour: six steps over the running engine, played with turns of its own through Control alone.

sizes.py how long its turns are, cast.py its agents, stage.py what a step can do and see, steps.py the six steps,
player.py from start to the end with everything put back, tour.py the thread and the verbs of the page.
"""
