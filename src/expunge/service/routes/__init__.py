"""The routes under ``/v1``, one module per kind of resource; each route declares the scopes that it takes.

Imports the rest of the service, the store and the layers below it. Start with `edits.py`.
"""
