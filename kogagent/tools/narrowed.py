"""pydantic's JSON Schema of types, narrowed to what it then reads. Knows no functions, no grammar."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kogagent.tools.digits import pattern


class Narrowed(GenerateJsonSchema):
    """pydantic's schemas, narrowed to what it then reads where they let more through."""

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "a complex number")

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Where the keys are a few texts, properties; else with what keys must look like also where they are
        read as numbers."""
        made = super().dict_schema(schema)
        if "keys_schema" not in schema:
            return made
        keys = self.resolve_ref_schema(self.generate_inner(schema["keys_schema"]))
        names = keys["enum"] if "enum" in keys else [keys["const"]] if "const" in keys else []
        if schema["keys_schema"].get("sub_type") == "int":  # an IntEnum's are read from their digits
            names = [str(int(name)) for name in names]
        values = made.pop("patternProperties", {keys.get("pattern"): made.get("additionalProperties", True)})
        (made["additionalProperties"],) = values.values()
        made.pop("propertyNames", None)
        if names and all(isinstance(name, str) for name in names):
            values = made["additionalProperties"]
            made["properties"] = {name: {} if values is True else values for name in names}
            made["additionalProperties"] = False
        elif (looks := _as_text(keys)) != _TEXT:
            made["propertyNames"] = looks
        return made

    def ordered_dict_schema(self, schema: Any) -> JsonSchemaValue:  # dictionaries to pydantic before 2.14
        return self.dict_schema(schema)

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        return self.dict_schema(schema)

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "a class")

    def uuid_schema(self, schema: core_schema.UuidSchema) -> JsonSchemaValue:
        made = super().uuid_schema(schema) | {"format": "uuid"}
        return (
            made | {"pattern": f"^.{{14}}{schema['version']}.{{4}}[89abAB]"} if "version" in schema else made
        )

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        made = super().datetime_schema(schema)
        return made | {"format": "date-time-local"} if schema.get("tz_constraint") == "naive" else made

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        made = super().url_schema(schema)
        schemes = schema.get("allowed_schemes") or []
        if schemes and {"http", "https"}.issuperset(schemes):
            made["format"] = "http-url"
            return made if len(schemes) > 1 else {**made, "pattern": f"^{schemes[0]}:"}
        return made | _of_schemes(schemes)

    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> JsonSchemaValue:
        made = super().multi_host_url_schema(schema) | {"format": "uri"}
        return made | _of_schemes(schema.get("allowed_schemes") or [])

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A number where it is bounded, exact to 15 digits; else text of digits, exact to every digit."""
        number: JsonSchemaValue = super().decimal_schema(schema)["anyOf"][0]
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if digits == 0:
            return self.handle_invalid_for_json_schema(schema, "a number of no digits")
        if len(number) == 1:
            return {"type": "string", "pattern": pattern(digits, places)}
        if places is not None and places <= 15:
            number.setdefault("multipleOf", float(Decimal(1).scaleb(-places)) if places else 1)
            if digits is not None and places < digits <= 15:
                most = float(Decimal(10) ** (digits - places) - Decimal(1).scaleb(-places))
                number["maximum"] = min(number.get("maximum", most), most)
                number["minimum"] = max(number.get("minimum", -most), -most)
        return number


_TEXT: JsonSchemaValue = {"type": "string"}
_KEYS: dict[str, JsonSchemaValue] = {
    "integer": {"type": "string", "pattern": "^(?:0|-?[1-9][0-9]{0,17})$"},
    "number": {"type": "string", "pattern": r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?$"},
    "boolean": {"type": "string", "enum": ["true", "false"]},
}
"""How a key is written that is read as such a value."""


def _as_text(keys: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of keys as that of their texts; as it is where no text is read as such a key."""
    kind = keys.get("type")
    said = {key: value for key, value in keys.items() if key not in ("title", "description")}
    if not said or _TEXT in said.get("anyOf", ()):
        return _TEXT
    if kind == "integer" and said == {"type": kind, "minimum": 0}:
        return {"type": "string", "pattern": "^(?:0|[1-9][0-9]{0,17})$"}
    return _KEYS[kind] if kind in _KEYS and len(said) == 1 else said


def _of_schemes(schemes: list[str]) -> JsonSchemaValue:
    return {"pattern": f"^(?:{'|'.join(map(re.escape, schemes))})://[A-Za-z0-9/]"} if schemes else {}
