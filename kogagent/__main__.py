"""`python -m kogagent` and the command `kogagent`. Knows the command line only."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code: 0 done, 1 the run failed, 2 bad input, 130 interrupted."""
    from kogagent.cli import app

    return app.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
