"""What a view shows and a command prints, as data: no Textual, no words for a terminal, one module per subject.

A report is made from an `Engine`: from `Ask`s that go along with a tick, or by a generator that makes one round trip
per step. Both the screen (`tui/screens`) and the command line (`cli`) show what is made here.
"""
