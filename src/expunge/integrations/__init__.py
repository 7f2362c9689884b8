"""Adapters for MCP clients, LangGraph agents, scikit-learn pipelines, and key-value caches of transformers.

A module may import the store and everything below it, and the library of its own extra; `expunge` itself imports none
of them. Start with `notebook.py`, the memory that begins with nothing, over which MCP and LangGraph work.
"""
