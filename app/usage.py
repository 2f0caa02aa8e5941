"""How the command line tells a mistake in its own words and options: one sentence, as every other mistake."""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

# The base of every such mistake: an unknown command or option, a value that is missing or of the wrong kind.
_Usage = typer.BadParameter.__mro__[1]


class OneSentence(TyperGroup):
    """Exit status 2 and a sentence on stderr, in place of the usage and a box."""

    def main(self, *args: Any, **extra: Any) -> Any:
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **{**extra, "standalone_mode": False})
        try:
            status = super().main(*args, **{**extra, "standalone_mode": False})
        except Exception as error:
            if not isinstance(error, _Usage):
                raise
            status = _told(error)
        sys.exit(status if isinstance(status, int) else 0)


def _told(error: Any) -> int:
    from engine.models.stated import one_line

    # Without a command the help is printed, and nothing is left to say.
    if message := error.format_message():
        command = error.ctx.command_path if error.ctx else "parkdeck"
        message = message.replace(". Did you", ", did you").rstrip(".?")
        typer.echo(one_line(f"{message}; `{command} --help` lists what can be given."), err=True)
    return int(error.exit_code)
