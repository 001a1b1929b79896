"""Build the data behind views and commands, one module per subject, without Textual or terminal formatting.

A report is created from an `Engine`: either from requests that are sent with a poll, or by a generator that makes one
round trip per step. The screen (`tui/screens`) and the command line (`cli`) both show these reports.
"""
