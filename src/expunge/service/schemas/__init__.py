"""The shapes of HTTP bodies: requests, responses and cursors, as the OpenAPI description gives them.

Imports pydantic and the settings' limits. Start with `requests.py`.
"""
