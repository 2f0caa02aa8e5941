"""A model's chat template, rendered in a sandbox: it is code from the model's file and is trusted with nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import Refused
from engine.models.tokenizer import TextTokenizer

Message = Mapping[str, Any]

# What a template can raise by itself, over messages that it was not written for.
_RENDER_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """`special_tokens` are the names a template may use, as `bos_token`; `tool_source` serves when tools are given."""

    source: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    tool_source: str | None = None

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt as text. `variables` are the model's own switches, as `enable_thinking`.

        Raises Refused, with the template's own words, when it does not take these messages.
        """
        source = self.tool_source if tools and self.tool_source else self.source
        given = {**self.special_tokens, **(variables or {})}
        try:
            return _compiled(source).render(
                **given,
                messages=[dict(message) for message in messages],
                tools=None if tools is None else [dict(tool) for tool in tools],
                documents=None,
                add_generation_prompt=add_generation_prompt,
            )
        except _RENDER_ERRORS as error:
            raise Refused(
                f"The model's chat template does not take these messages ({error}); change their roles or content, "
                "or send the prompt as plain text to /v1/completions."
            ) from error


def chat_ids(
    tokenizer: TextTokenizer,
    template: ChatTemplate | None,
    messages: Sequence[Message],
    add_generation_prompt: bool = True,
    tools: Sequence[Mapping[str, Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> list[int]:
    """Prompt ids of a chat; the start token comes from the template alone, so it is never there twice.

    Raises Refused when the model has no template or it does not take the messages.
    """
    if template is None:
        raise Refused("This model has no chat template; send the prompt as plain text to /v1/completions.")
    return tokenizer.encode(template.render(messages, add_generation_prompt, tools, variables), add_bos=False)


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's words for training; here its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 reads it from the class

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(source)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: jinja2's own filter escapes HTML, which models were not trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
