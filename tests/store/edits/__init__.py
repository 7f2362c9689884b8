"""Tests of edits of stored memories: previews, repetition, crashes, concurrency."""
