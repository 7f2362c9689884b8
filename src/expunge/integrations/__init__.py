"""Where users already are: MCP clients, LangGraph agents, scikit-learn pipelines, key-value caches of transformers.

Each module stands alone and needs the extra of its name; nothing here is imported by `expunge` itself.
"""
