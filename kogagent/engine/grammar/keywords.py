"""The keywords of JSON Schema: enforced or mere annotation; all others are refused. Knows no shapes."""

from __future__ import annotations

KEYWORDS: dict[str, tuple[str, str]] = {
    "type": ("enforced", "a name or a list of names"),
    "enum": ("enforced", "any JSON values, written canonically"),
    "const": ("enforced", "any JSON value, written canonically"),
    "properties": ("enforced", "written in schema order; optional ones may be skipped"),
    "required": ("enforced", "names outside `properties` follow those"),
    "additionalProperties": (
        "enforced",
        "false, true or a schema; bounded in number; an unnamed key may repeat, readers keep the last",
    ),
    "patternProperties": ("enforced", "names that `properties` lists first, in their order, then the others"),
    "propertyNames": ("enforced", "as the strings its schema allows"),
    "minProperties": ("enforced", "where unnamed ones are allowed: at most one more than the required ones"),
    "maxProperties": ("enforced", "where unnamed ones are allowed: not between the required ones and all"),
    "dependentRequired": ("enforced", "as alternatives: with the property and without"),
    "dependentSchemas": ("enforced", "likewise"),
    "dependencies": ("enforced", "likewise; draft-07's word for both"),
    "items": ("enforced", "a schema; in draft-07 also a list"),
    "prefixItems": ("enforced", ""),
    "additionalItems": ("enforced", "behind a draft-07 list of `items`"),
    "minItems": ("enforced", ""),
    "maxItems": ("enforced", ""),
    "contains": (
        "enforced",
        "where an item tells in time whether it fits; items up to some hundreds",
    ),
    "minContains": ("enforced", "beside contains"),
    "maxContains": ("enforced", "beside contains"),
    "unevaluatedItems": ("enforced", "of each alternative, what all that holds together speaks of"),
    "unevaluatedProperties": ("enforced", "likewise; beside it an anyOf of at most 7"),
    "uniqueItems": ("enforced", "items of at most 8 enumerated values, or at most one item"),
    "minLength": ("enforced", "in code points"),
    "maxLength": ("enforced", "in code points; cost does not grow with it"),
    "pattern": ("enforced", "the regular subset of ECMA-262; together with lengths"),
    "format": ("enforced", "the formats below; others are refused"),
    "minimum": ("enforced", "any size, exact"),
    "maximum": ("enforced", "any size, exact"),
    "exclusiveMinimum": ("enforced", "any size, exact; true or false in a schema of draft-04 to 07"),
    "exclusiveMaximum": ("enforced", "any size, exact; true or false in a schema of draft-04 to 07"),
    "multipleOf": ("enforced", "exact; refused where its automaton is too large"),
    "anyOf": ("enforced", ""),
    "oneOf": (
        "enforced",
        "when the alternatives are provably disjoint as specified; left out are enumerated values of two "
        "and properties that another object requires and this one does not",
    ),
    "allOf": ("enforced", "by merging"),
    "not": ("enforced", "as alternatives of other keywords; what only memory could keep is refused"),
    "if": ("enforced", "as two alternatives, with `not` of the condition"),
    "then": ("enforced", "beside if"),
    "else": ("enforced", "beside if"),
    "$ref": ("enforced", "inside the document; recursion is cut at a depth"),
    "$defs": ("enforced", ""),
    "definitions": ("enforced", ""),
    "$anchor": ("enforced", "as a target of $ref"),
    "$dynamicAnchor": ("enforced", "as a target of $dynamicRef and $ref"),
    "$dynamicRef": ("enforced", "like $ref: a document without embedded $id has one target"),
    "$recursiveAnchor": ("annotation", "2019-09: of a document without embedded $id it says nothing"),
    "$recursiveRef": ("enforced", "2019-09: like $ref"),
    "nullable": ("enforced", "OpenAPI: adds null"),
    "$schema": ("annotation", "picks the reading of draft-04 to 07 where it names one of them"),
    "$id": ("annotation", "at the root, and elsewhere around no reference"),
    "$vocabulary": ("annotation", "speaks of schemas that name this one in $schema"),
    "$comment": ("annotation", ""),
    "title": ("annotation", ""),
    "description": ("annotation", ""),
    "default": ("annotation", ""),
    "examples": ("annotation", ""),
    "example": ("annotation", "OpenAPI"),
    "deprecated": ("annotation", ""),
    "readOnly": ("annotation", ""),
    "writeOnly": ("annotation", ""),
    "contentEncoding": ("annotation", "asserts nothing since 2019-09; refused in draft-07"),
    "contentMediaType": ("annotation", "asserts nothing since 2019-09; refused in draft-07"),
    "contentSchema": ("annotation", "asserts nothing"),
    "discriminator": ("annotation", "OpenAPI: names what oneOf already says"),
    **dict.fromkeys(("externalDocs", "xml"), ("annotation", "OpenAPI")),
    "propertyOrdering": ("annotation", "Gemini; properties are written in schema order"),
    "enumNames": ("annotation", "MCP: what a user reads for each value"),
    **dict.fromkeys(
        (
            *("markdownDescription", "enumDescriptions", "markdownEnumDescriptions", "enumItemLabels"),
            *("defaultSnippets", "errorMessage", "patternErrorMessage", "deprecationMessage"),
            *("doNotSuggest", "suggestSortText"),
        ),
        ("annotation", "VS Code"),
    ),
}
"""keyword: (enforced | annotation, how far). One in no row is refused; x-… is an annotation."""

NEWER = {
    **dict.fromkeys(("contentEncoding", "contentMediaType"), "lets it assert what no automaton checks"),
    **dict.fromkeys(("minContains", "maxContains"), "does not know it"),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), "does not know it"),
    **dict.fromkeys(
        ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"), "does not know it"
    ),
}
"""keyword: what draft-07 does with it: refused there, for a reader of that draft would take it otherwise."""


def verdict(keyword: str, old: bool = False) -> tuple[str, str]:
    """What becomes of a keyword, and for a refused one why. old: in a document of draft-07 or before."""
    if old and keyword in NEWER:
        return "refused", f"is not supported: draft-07 {NEWER[keyword]}. Remove it or name a newer $schema"
    if keyword in KEYWORDS:
        return KEYWORDS[keyword]
    if str(keyword).startswith("x-"):
        return "annotation", ""
    return "refused", "is not known. Remove it or rewrite the schema"


CARRIED = frozenset(
    {
        *("type", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "definitions"),
        *("properties", "required", "additionalProperties", "patternProperties", "maxProperties"),
        *("items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
"""What llguidance enforces as well: of these the cases refused here can be handed to it.

Not minProperties, where it counts a repeated name twice, and not oneOf, which it does not have."""

IMPLIES = {
    **dict.fromkeys(
        ("properties", "required", "additionalProperties", "minProperties", "maxProperties"), "object"
    ),
    **dict.fromkeys(
        (
            *("patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies"),
            "unevaluatedProperties",
        ),
        "object",
    ),
    **dict.fromkeys(
        (
            *("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"),
            *("contains", "unevaluatedItems"),
        ),
        "array",
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
"""The type a keyword speaks of, for schemas without `type`."""
