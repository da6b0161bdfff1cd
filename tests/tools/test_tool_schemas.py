"""What @tool makes of a signature: types, docstrings, kinds of functions; what it refuses, and its words."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import functools
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import numpy as np
import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, Json, SecretStr, field_validator, model_validator
from tool_kinds import KINDS, Colour, Options, Point, Tree

from kogagent import RunContext, SchemaError, Tool, tool
from kogagent.tools.schema import explain, of_json_schema, of_type, read_json
from kogagent.tools.tool import collect


def properties(made: Tool[..., Any]) -> dict[str, Any]:
    return dict(made.spec.parameters["properties"])


def property_of(annotation: Any, default: Any = ...) -> Any:
    """The schema of one parameter with this annotation."""

    def f(x: Any) -> None: ...

    f.__annotations__["x"] = annotation
    if default is not ...:
        f.__defaults__ = (default,)
    return properties(tool(f))["x"]


def delivered(annotation: Any, text: str) -> Any:
    """What a function with one such parameter gets for this JSON value."""

    def f(x: Any) -> None: ...

    f.__annotations__["x"] = annotation
    return tool(f).signature.read('{"x": ' + text + "}")["x"]


def without_descriptions(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            k: without_descriptions(v) for k, v in schema.items() if k != "description" or isinstance(v, dict)
        }
    return [without_descriptions(v) for v in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(("annotation", "schema", "text", "value"), KINDS, ids=[str(k[0]) for k in KINDS])
def test_a_type_has_this_schema_and_its_value_is_delivered_as_annotated(
    annotation: Any, schema: Any, text: str, value: Any
) -> None:
    assert without_descriptions(property_of(annotation)) == schema
    got = delivered(annotation, text)
    assert got == value and type(got) is type(value)


def test_bytes_bounded_in_number_match_their_pattern_and_nothing_else_does(rng: np.random.Generator) -> None:
    least, over = int(rng.integers(0, 8)), int(rng.integers(0, 8))
    for most in (least + over, None):
        kind = Annotated[bytes, Field(min_length=least, max_length=most)]
        pattern = property_of(kind)["pattern"]
        for size in range(20):
            text = base64.urlsafe_b64encode(rng.bytes(size)).decode()
            within = least <= size and (most is None or size <= most)
            assert bool(re.search(pattern, text)) == within, (least, most, size)
    assert property_of(bytes, b"\xff")["default"] == "_w=="
    with pytest.raises(SchemaError, match=r"bounds bytes by 2000 at /properties/x.*raise Retry"):
        property_of(Annotated[bytes, Field(max_length=2000)])


def test_an_optional_parameter_is_nullable_and_keeps_its_default() -> None:
    @tool
    def f(a: int, b: Optional[str] = None, c: str = "see") -> Any:  # noqa: UP045
        return a, b, c

    assert f.spec.parameters["required"] == ["a"]
    assert properties(f)["b"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties(f)["c"] == {"type": "string", "default": "see"}
    assert f(**f.signature.read('{"a": 1}')) == (1, None, "see")
    assert f(**f.signature.read('{"a": 1, "b": null}')) == (1, None, "see")


def test_a_default_that_is_no_json_still_applies() -> None:
    private = object()

    @tool
    def f(when: dt.date = dt.date(2020, 1, 2), thing: Any = private) -> Any:
        return when, thing

    assert properties(f)["when"]["default"] == "2020-01-02"
    assert "default" not in properties(f)["thing"]
    assert f(**f.signature.read("{}")) == (dt.date(2020, 1, 2), private)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, '"1"'),
        (int, "2.0"),
        (int, "true"),
        (str, "1"),
        (bool, "1"),
        (float, '"2"'),
        (float, "NaN"),
        (float, "Infinity"),
        (list[float], "[NaN]"),
        (Literal["c", "f"], '"k"'),
        (Colour, '"RED"'),
        (Annotated[int, Field(ge=1, le=9)], "10"),
        (dict[str, int], '{"a": "1"}'),
        (Point, '{"x": 1, "z": 2}'),
        (Tree, '{"value": 1, "children": [{"value": 2, "odd": 3}]}'),
        (Options, '{"size": 1, "odd": 2}'),
        (decimal.Decimal, '"NaN"'),
        (dt.date, '"2023-02-29"'),
    ],
)
def test_a_value_outside_the_type_is_rejected_not_coerced(annotation: Any, text: str) -> None:
    with pytest.raises(ValueError):
        delivered(annotation, text)


def test_an_unknown_argument_is_rejected() -> None:
    @tool
    def f(a: int) -> None: ...

    assert f.spec.parameters["additionalProperties"] is False
    with pytest.raises(ValueError, match=r"(?i)extra"):
        f.signature.read('{"a": 1, "b": 2}')


def test_a_model_that_says_it_is_open_stays_open() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    assert property_of(Open)["additionalProperties"] is True
    assert delivered(Open, '{"a": 1, "b": 2}').model_extra == {"b": 2}


def test_a_recursive_type_keeps_a_reference_and_is_read_to_the_bottom() -> None:
    schema = tool(_grow).spec.parameters
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    got = tool(_grow).signature.read('{"tree": {"value": 1, "children": [{"value": 2}]}}')["tree"]
    assert got == Tree(value=1, children=[Tree(value=2)])


def _grow(tree: Tree) -> None: ...


def test_a_long_definition_used_often_is_written_once() -> None:
    words = Literal[tuple(f"a rather long word {i}" for i in range(40))]  # type: ignore[valid-type]

    @dataclasses.dataclass
    class Big:
        word: words  # type: ignore[valid-type]

    def f(a: Any, b: Any, c: Any) -> None: ...

    f.__annotations__ = {"a": Big, "b": Big, "c": Point}
    schema = tool(f).spec.parameters
    assert list(schema["$defs"]) == ["Big"]
    assert schema["properties"]["a"] == schema["properties"]["b"] == {"$ref": "#/$defs/Big"}
    assert schema["properties"]["c"]["type"] == "object"


def test_parameters_named_like_schema_keywords_or_model_methods_survive() -> None:
    @tool
    def f(title: str, default: int, json: str, copy: bool, model_config: str, _hidden: int = 1) -> None: ...

    assert list(properties(f)) == ["title", "default", "json", "copy", "model_config", "_hidden"]


# ── docstrings ───────────────────────────────────────────────────────────────────────────────


def google(a: int, b: str = "x", c: float = 1.0) -> None:
    """Do it.

    In two
    lines.

    Args:
        a (int): The first.

            With more.
        b (str, optional): The second,
            over two lines.

        c: The third.

    Returns:
        Nothing.
    """


def numpy_style(a: int, b: str = "x", c: float = 1.0) -> None:
    """Do it.

    In two
    lines.

    Parameters
    ----------
    a : int
        The first.

        With more.
    b : str, optional
        The second,
        over two lines.
    c : float
        The third.

    Returns
    -------
    None
        Nothing.
    """


def sphinx(a: int, b: str = "x", c: float = 1.0) -> None:
    """Do it.

    In two
    lines.

    :param a: The first.

        With more.
    :type a: int
    :param str b: The second,
        over two lines.

    :param c: The third.
    :returns: Nothing.
    """


@pytest.mark.parametrize("function", [google, numpy_style, sphinx], ids=["google", "numpy", "sphinx"])
def test_every_description_of_a_docstring_is_found(function: Callable[..., None]) -> None:
    made = tool(function)
    assert made.spec.description.startswith("Do it.")
    assert made.spec.description.split() == ["Do", "it.", "In", "two", "lines."]
    said = [schema["description"] for schema in properties(made).values()]
    assert said == ["The first. With more.", "The second, over two lines.", "The third."]


def test_a_numpy_entry_for_two_names_describes_both() -> None:
    def f(x: float, y: float) -> None:
        """Go.

        Parameters
        ----------
        x, y : float
            A coordinate.
        """

    assert [schema["description"] for schema in properties(tool(f)).values()] == ["A coordinate."] * 2


def test_no_docstring_is_fine() -> None:
    def f(a: int) -> None: ...

    assert tool(f).spec.description == ""
    assert properties(tool(f)) == {"a": {"type": "integer"}}


def test_a_description_in_the_annotation_wins_over_the_docstring() -> None:
    def f(
        a: Annotated[int, "said here"],
        b: Annotated[int, Field(description="in the field")],
        c: Annotated[int, typing_extensions.Doc("in a Doc")],
    ) -> None:
        """F.

        Args:
            a: lost
            b: lost
            c: lost
        """

    said = [schema["description"] for schema in properties(tool(f)).values()]
    assert said == ["said here", "in the field", "in a Doc"]


# ── kinds of functions ───────────────────────────────────────────────────────────────────────


def test_options_of_the_decorator_override_name_and_description() -> None:
    @tool(name="other", description="Something else.")
    def f() -> None:
        """Original."""

    assert (f.name, f.spec.description) == ("other", "Something else.")
    assert f.__doc__ == "Original."


def test_a_decorated_function_can_still_be_called() -> None:
    @tool
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == 8


class Shelf:
    """A toolkit."""

    def __init__(self, books: list[str]) -> None:
        self.books = books

    @tool
    def find(self, word: str) -> list[str]:
        """Find books."""
        return [book for book in self.books if word in book]

    @tool(name="count_books")
    async def count(self) -> int:
        """Count them."""
        return len(self.books)

    @staticmethod
    @tool
    def shelf_size(kind: str) -> int:
        """Size."""
        return len(kind)

    @tool
    @classmethod
    def kind(cls, loud: bool) -> str:
        """Kind."""
        return cls.__name__.upper() if loud else cls.__name__

    def not_a_tool(self, odd) -> None: ...  # type: ignore[no-untyped-def]


class Attic(Shelf):
    @tool
    def find(self, word: str, dusty: bool = True) -> list[str]:
        """Find dusty books."""
        return ["dust"]


def test_a_toolkit_gives_its_methods_bound_in_the_order_of_definition() -> None:
    made = collect([Shelf(["tall", "small"])])
    assert [one.name for one in made] == ["find", "count_books", "shelf_size", "kind"]
    assert "self" not in properties(made[0])
    assert made[0](word="tall") == ["tall"]
    assert made[2](kind="abc") == 3
    assert made[3](loud=True) == "SHELF"


def test_two_instances_of_a_toolkit_do_not_share_state() -> None:
    first, second = Shelf(["a"]), Shelf(["b"])
    assert first.find("") == ["a"] and second.find("") == ["b"]
    assert first.find is not second.find and first.find.spec is second.find.spec


def test_an_overridden_method_is_the_tool_of_the_subclass() -> None:
    made = {one.name: one for one in collect([Attic([])])}
    assert list(properties(made["find"])) == ["word", "dusty"]


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"'find'.*method without its object.*instance"):
        collect([Shelf.find])


def test_bound_methods_callables_and_partials_are_tools() -> None:
    class Greeter:
        """Ignored."""

        def __init__(self, word: str) -> None:
            self.word = word

        def greet(self, name: str) -> str:
            """Greet."""
            return f"{self.word} {name}"

        def __call__(self, name: str) -> str:
            """Call."""
            return self.greet(name)

    def power(base: int, exponent: int, *, negate: bool = False) -> int:
        """Raise.

        Args:
            base: the base
        """
        value: int = base**exponent
        return -value if negate else value

    greeter = Greeter("hi")
    bound, called, square = collect(
        [greeter.greet, tool(greeter, name="call"), functools.partial(power, exponent=2)]
    )
    assert (bound.name, bound.spec.description, bound(name="x")) == ("greet", "Greet.", "hi x")
    assert (called.spec.description, called(name="y")) == ("Call.", "hi y")
    assert square.name == "power" and list(properties(square)) == ["base", "negate"]
    assert properties(square)["base"]["description"] == "the base"
    assert square(base=3) == 9


def test_keyword_only_and_positional_only_parameters_arrive() -> None:
    @tool
    def f(a: int, b: int = 5, /, *, c: int) -> tuple[int, int, int]:
        return a, b, c

    values = f.signature.read('{"c": 3, "a": 1}')
    assert f(*f.signature.take_positional(values), **values) == (1, 5, 3)


def test_the_run_context_is_injected_and_never_shown() -> None:
    @tool
    def f(a: int, context: RunContext[str]) -> None: ...

    @tool
    def g(plain: RunContext) -> None: ...

    assert list(properties(f)) == ["a"] and f.signature.context == "context"
    assert properties(g) == {} and g.signature.context == "plain"


def test_a_local_type_named_in_a_postponed_annotation_is_resolved() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    class Kit:
        @dataclasses.dataclass
        class Inner:
            b: int

        @tool
        def f(self, local: Local, inner: Inner) -> None: ...

    assert list(properties(Kit.f)["local"]["properties"]) == ["a"]
    assert list(properties(Kit.f)["inner"]["properties"]) == ["b"]


def test_a_type_whose_own_annotation_nobody_knows_is_an_error_that_names_it() -> None:
    @dataclasses.dataclass
    class Odd:
        a: Nowhere  # type: ignore[name-defined]  # noqa: F821

    def f(a: Odd) -> None: ...

    with pytest.raises(SchemaError, match=r"'f' \(.*'Nowhere'.*Define or import"):
        tool(f)


def test_a_type_nobody_knows_is_an_error_that_names_it() -> None:
    def f(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(
        SchemaError, match=r"tool 'f' \(.*test_tool_schemas.py:\d+\).*'Nowhere'.*Define or import"
    ):
        tool(f)


def test_decorators_in_the_wrong_order_are_refused_with_the_right_one() -> None:
    with pytest.raises(SchemaError, match="@tool above @classmethod"):

        class Kit:
            @classmethod
            @tool
            def f(cls, a: int) -> None: ...

    def loose(self, a: int) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(SchemaError, match="bound method"):
        tool(loose)


def test_a_set_of_tools_has_a_fixed_order() -> None:
    def alpha() -> None: ...
    def beta() -> None: ...
    def gamma() -> None: ...

    assert [one.name for one in collect({gamma, alpha, beta})] == ["alpha", "beta", "gamma"]
    assert [one.name for one in collect([gamma, alpha, beta])] == ["gamma", "alpha", "beta"]


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    def make() -> Callable[[], None]:
        def same() -> None: ...

        return same

    def same() -> None: ...

    with pytest.raises(SchemaError, match=r"'same'.*py:\d+ and .*py:\d+.*@tool\(name"):
        collect([make(), same])


def _untyped(a) -> None: ...  # type: ignore[no-untyped-def]
def _star(*a: int) -> None: ...
def _stars(**a: int) -> None: ...
def _private(a: object, b: threading_lock) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _handle(a: Callable[[], int]) -> None: ...
def _int_keys(a: dict[Literal["x", 1], int]) -> None: ...
def _paired(a: dict[str, list[dict[tuple[int, int], str]]]) -> None: ...
def _bounded(a: dict[Annotated[int, Field(ge=3)], str]) -> None: ...
def _empty(b: int, a: Annotated[decimal.Decimal, Field(max_digits=0)]) -> None: ...
def _nothing(b: int, a: Annotated[decimal.Decimal, Field(max_digits=0, ge=0)]) -> None: ...
def _packed(a: Json[list[int]]) -> None: ...
def _class(b: int, a: type[int]) -> None: ...
def _imaginary(b: int, a: complex) -> None: ...
def _ahead(b: int, a: Annotated[str, Field(pattern="(?=a)")]) -> None: ...
def _two(a: RunContext[int], b: RunContext[int]) -> None: ...
def _yields(a: int) -> typing.Iterator[int]:
    yield a


async def _ayields(a: int) -> typing.AsyncIterator[int]:
    yield a


def _field_default(a: int = Field(ge=1)) -> None: ...


class _Plain: ...


def _foreign(b: int, a: list[_Plain] | None = None) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_untyped, r"'a' of tool '_untyped' \(.*py:\d+\) has no type.*Any"),
        (_star, r"'a'.*any number of arguments.*list or a dict"),
        (_stars, r"'a'.*any number of arguments.*list or a dict"),
        (_private, r"'threading_lock'"),
        (_handle, r"parameter 'a' of tool '_handle' \(.*py:\d+\) has a type without a JSON Schema"),
        (_int_keys, r"'_int_keys'.*'propertyNames'.*str keys"),
        (_paired, r"'_paired'.*'propertyNames' at /properties/a/.*str keys"),
        (_bounded, r"'_bounded'.*'propertyNames'.*str keys"),
        (_empty, r"parameter 'a' of tool '_empty'.*a number of no digits"),
        (_nothing, r"parameter 'a' of tool '_nothing'.*a number of no digits"),
        (_packed, r"'_packed'.*'contentMediaType' at /properties/a.*Annotate it as what the text holds"),
        (_class, r"parameter 'a' of tool '_class'.*a class"),
        (_imaginary, r"parameter 'a' of tool '_imaginary' \(.*py:\d+\) has a type without a JSON Schema"),
        (_ahead, r"parameter 'a' of tool '_ahead' \(.*py:\d+\).*look-around"),
        (_two, r"'b'.*second RunContext"),
        (_yields, r"'_yields'.*generator.*list"),
        (_ayields, r"'_ayields'.*generator.*list"),
        (_field_default, r"'a'.*Field as its default.*Annotated"),
        (_foreign, r"parameter 'a' of tool '_foreign' \(.*py:\d+\).*_Plain.*dataclasses"),
        (lambda: None, r"lambda.*name="),
        (Shelf, r"is a class.*instance"),
        ("text", r"no function"),
        (3, r"no function"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_words_that_help(function: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        collect([function])


def test_annotations_refuse_no_tool_and_examples_are_for_the_model_to_read() -> None:
    class Badge(BaseModel):
        model_config = ConfigDict(json_schema_extra={"example": {"number": 7}})
        number: int = Field(examples=[7, 8], json_schema_extra={"$comment": "ours", "readOnly": True})
        code: SecretStr = Field(SecretStr("0"), deprecated=True)

    @tool
    def admit(badge: Badge, door: Annotated[str, Field(examples=["north"])] = "south") -> str:
        return f"{badge.number} by {door}"

    assert admit.spec.parameters["properties"] == {
        "badge": {
            "type": "object",
            "example": {"number": 7},
            "properties": {
                "number": {"type": "integer", "examples": [7, 8]},
                "code": {"type": "string", "default": "**********"},
            },
            "required": ["number"],
            "additionalProperties": False,
        },
        "door": {"type": "string", "examples": ["north"], "default": "south"},
    }


class Span(BaseModel):
    First: int
    last: int

    @field_validator("last")
    @classmethod
    def small(cls, value: int) -> int:
        if value > 9:
            raise ValueError("Must be small")
        return value

    @model_validator(mode="after")
    def ordered(self) -> Span:
        if self.First > self.last:
            raise ValueError("First must not be above last")
        return self


@pytest.mark.parametrize(
    ("annotation", "text", "words"),
    [
        (Span, '{"First": 3, "last": 10}', "last: must be small (got 10)"),
        (Span, '{"First": 3, "last": 2}', "First must not be above last"),
        (HttpUrl, '"ftp://here"', "value: URL scheme should be 'http' or 'https' (got 'ftp://here')"),
        (int, '"3"', "value: input should be a valid integer (got '3')"),
    ],
)
def test_what_is_wrong_is_said_once_and_with_its_place(annotation: Any, text: str, words: str) -> None:
    adapter, _ = of_type(annotation, name="answer")
    with pytest.raises(ValueError) as caught:
        read_json(adapter, text, None)
    assert explain(caught.value) == words


def test_a_tool_of_a_json_schema_tells_what_does_not_fit_by_its_path() -> None:
    box = {"type": "object", "properties": {"Size": {"enum": ["s", "l"]}}}
    made = of_json_schema(
        {"type": "object", "properties": {"box": box}}, tool="pack", description="", place="here"
    )
    with pytest.raises(ValueError) as caught:
        made.read('{"box": {"Size": "xl"}}')
    assert explain(caught.value) == "box.Size: 'xl' is not one of ['s', 'l']"


@pytest.mark.parametrize("name", ["", "two words", "1st", "dotted.name", "x" * 65, "é", 3])
def test_a_name_no_model_could_write_is_refused(name: Any) -> None:
    with pytest.raises(SchemaError, match="cannot be a tool's name"):
        tool(name=name)(google)


def test_a_description_that_is_no_text_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"'google' \(.*test_tool_schemas.py:\d+\) must be text, not 3"):
        tool(description=3)(google)  # type: ignore[call-overload]


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1.0}, {"max_result_chars": 0}])
def test_a_bad_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        tool(**options)(google)


def test_applying_the_decorator_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="tool already"):
        tool(tool(google))
