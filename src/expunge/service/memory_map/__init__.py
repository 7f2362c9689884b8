"""A memory as a map in the plane, for the page: points, axes, and the boundary as lines.

Imports a memory's version, leaves of the ledger and what their receipts say, NumPy and SciPy, and no web framework but
through `json_response.py`. Start with `map_content.py`.
"""
