"""The report on an audit: the paper's tables beside ours, verdicts, figures, the HTML page and the README's table.

Reads results and imports no experiment. Start with `report.py`.
"""
