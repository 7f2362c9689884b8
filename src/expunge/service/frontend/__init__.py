"""The page: static files with a verifier of their own, and the routes that need no token.

Imports the service's authorization and the store; its scripts share no code with the Python verifier, and tests compare
the two. Start with `files.py`, then `static/app.js`.
"""
