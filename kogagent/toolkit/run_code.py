"""Runs the Python program on its standard input. Imports nothing of ours.

The child that runs this file may be confined to it and the standard library.
"""

from __future__ import annotations

import ast
import sys
import traceback


def main() -> None:
    source = sys.stdin.read()
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        tree = ast.parse(source, "<program>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<program>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<program>", "eval"), names)
            if value is not None:
                print(repr(value))  # noqa: T201
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without this file
        sys.stdout.flush()
        traceback.print_exception(type(error), error, trace)
        sys.exit(1)


if __name__ == "__main__":
    main()
