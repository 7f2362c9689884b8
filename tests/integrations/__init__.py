"""The integrations, each used by its real client."""
