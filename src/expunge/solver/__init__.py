"""The maintained solver: a cold fit, and paths that follow the optimum from one edit to the next.

Imports the problem alone. Start with `state.py` (what is maintained), `path.py` (how an edit moves it) and
`attempts.py` (which candidate is accepted); `backends.py` holds solvers of others, for rescues and comparison.
"""
