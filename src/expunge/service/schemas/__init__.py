"""Bodies of requests and responses, and cursors, as the OpenAPI description gives them.

Imports pydantic, FastAPI's parameter types and the settings' limits. Start with `requests.py`.
"""
