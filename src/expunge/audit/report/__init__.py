"""The report on an audit: the paper's tables beside ours, verdicts, figures, the HTML page and the README's table.

It imports the audit's results and constants of the experiments, and solves nothing. Start at `report`, then
`paper_tables`, which has the paper's numbers, and `verdict`, which judges ours beside them.
"""
