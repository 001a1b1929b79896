"""Celery on Redis: the layout, and its messages as bytes."""
