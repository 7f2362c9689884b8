"""The page: static files, and the routes that serve them and the report.

Its scripts share no code with the Python verifier, and tests hold the two together. Start with `files.py`.
"""
