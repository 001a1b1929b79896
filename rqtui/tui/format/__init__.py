"""Convert queues, jobs and reports to what the screen shows, as data: columns, rows and sentences.

The modules contain pure functions and no widgets.
"""
