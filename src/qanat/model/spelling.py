"""Did you mean: the nearest known name for a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of an error message: the nearest name, or `otherwise`, where none is near."""
    # Imported late: most programs misspell nothing.
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; {otherwise}" if otherwise else ""
