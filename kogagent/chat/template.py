"""Chat templates: Jinja in a sandbox, set up as transformers does. Knows no tokens, no messages' classes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kogagent.errors import ConfigError, InputError


class RawArguments(dict[str, Any]):
    """A call's arguments for a template: a mapping to look into, and the exact JSON text the model wrote,
    which `tojson` gives back."""

    def __init__(self, values: Mapping[str, Any], text: str) -> None:
        super().__init__(values)
        self.text = text


class ChatTemplate:
    """One compiled template.

    names: "bos_token", "eos_token", … for the template. today: what `strftime_now` tells; None leaves it
    undefined, so that templates take the fixed date they were made with and a prompt is the same every day.
    Raises ConfigError for a template that does not compile.
    """

    def __init__(
        self, source: str, names: Mapping[str, str], *, today: datetime.date | None = None, where: str = ""
    ) -> None:
        self.source = source
        self._names = dict(names)
        self._where = where or "chat template"
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        if today is not None:
            environment.globals["strftime_now"] = today.strftime
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigError(
                f"{self._where}: the chat template does not compile, line {error.lineno}: {error.message}"
            ) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool,
    ) -> str:
        """The text of a conversation.

        Raises InputError when the template refuses it, ConfigError when the template does what the sandbox
        forbids.
        """
        try:
            return self._template.render(
                messages=messages,
                tools=tools or None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._names,
            )
        except _Refusal as error:
            raise InputError(f"the chat template refuses this conversation: {error}") from error
        except SecurityError as error:
            raise ConfigError(
                f"{self._where}: the chat template does what is not allowed in it: {error}"
            ) from error
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"the chat template fails on this conversation: {type(error).__name__}: {error}"
            ) from error


class _Refusal(TemplateError):
    """`raise_exception` was called."""


def _raise(message: str) -> NoReturn:
    raise _Refusal(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if isinstance(value, RawArguments) and indent is None and separators is None and not sort_keys:
        return value.text
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


class _Generation(Extension):
    """{% generation %}…{% endgeneration %}, with which templates mark what a model learns: just its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
