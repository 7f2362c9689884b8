"""A memory as a map in the plane, for the page: points, axes, and the boundary as lines.

Imports a memory's version and NumPy, and no web framework. Start with `projection_plane.py`.
"""
