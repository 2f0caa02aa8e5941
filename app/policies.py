"""`parkdeck policies`: the tier policies that can be chosen, their knobs, and those of one's own that cannot."""

import typer

from app.columns import print_columns
from engine.policies import parameters, policies, refused_policies


def print_policies() -> None:
    print_columns("policy", "what it does", rows=[(one.name, one.title) for one in policies().values()])
    typer.echo()
    rows = [
        (knob, one.label, f"{one.default:g} {one.unit}".rstrip(), f"{one.low:g} to {one.high:g}")
        for knob, one in parameters().items()
    ]
    print_columns("knob", "", "default", "range", rows=rows)
    for sentence in refused_policies():
        typer.echo(sentence, err=True)
