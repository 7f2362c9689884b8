"""The commands of ``expunge``, by what a user does; each module adds its commands to the app.

Imports whatever its command needs, inside the command, so that ``--help`` stays quick. Start with `add_entries.py`.
"""
