"""resident-only: nothing is ever moved and newcomers wait for room. Only a stall is broken, by the governor.

Source: the baseline that InferCept (ICML 2024) calls preserve: context stays in the GPU's memory while a tool runs.
"""

from engine.policies.base import Parameter, Relief, Situation


class ResidentOnly:
    name = "resident-only"
    title = "Never move; newcomers wait for room"
    fits = "Everything fits, or one wants to see what never moving costs"
    source = "what InferCept (ICML 2024) calls preserve"
    parameters: tuple[Parameter, ...] = ()

    def relieve(self, situation: Situation) -> Relief:
        return Relief()
