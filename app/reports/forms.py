"""The forms of a report."""

FORMS = ("html", "json", "pdf", "md", "csv")
"""What a report can be written as: a page, its value, a tagged PDF, Markdown, the objectives as rows."""
