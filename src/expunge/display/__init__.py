"""How objects look in a notebook, and as a data frame.

A class that a person meets in a notebook subclasses `Displayed` and says in a `Card` what it is. Cards escape all text,
show nothing that was erased, and need no extra. Start with `card.py`. Imports the standard library, and pandas or
polars where a frame is asked for.
"""
