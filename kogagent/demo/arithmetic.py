"""Arithmetic from text, and numbers as text. Knows nothing else."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

from kogagent.errors import Retry

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def evaluate(expression: str) -> float:
    """The value of + - * / // % ** and parentheses over numbers; anything else raises Retry."""
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        raise Retry(f"{expression!r} is not arithmetic. Use numbers and + - * / ( ) only.") from None
    except ZeroDivisionError:
        raise Retry(f"{expression!r} divides by zero.") from None
    except OverflowError:
        raise Retry(f"{expression!r} is too large.") from None
    if isinstance(value, complex) or not math.isfinite(value):
        raise Retry(f"{expression!r} has no finite real value.")
    return value


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return node.value
        raise ValueError(ast.dump(node))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        operand = _value(node.operand)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > 64:
            raise OverflowError  # an exact integer power of any size would be computed in full
        result = _BINARY[type(node.op)](left, right)
        if abs(result) > 1e100:
            raise OverflowError
        return result
    raise ValueError(ast.dump(node))


def number(value: float) -> str:
    """A number as a person writes it: two decimals where it has any, more only below one."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 1 else f"{value:.3g}"
