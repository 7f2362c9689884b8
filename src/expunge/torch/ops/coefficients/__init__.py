"""Coefficients of many gates at once: every prefix of every head, in one call."""
