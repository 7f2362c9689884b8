"""The commands, one module per kind; each module registers its commands with the app.

A module may import every other package, but what is slow to load only inside its functions, so that ``--help`` stays
quick. Start with `remove_entries.py`.
"""
