"""The routes under ``/v1``, one module per kind of resource; each route declares the scopes that it takes.

Imports the rest of the service and the store. Start with `edits.py`.
"""
