"""Tests of the command line, its guide, the tables it reads and the demo."""
