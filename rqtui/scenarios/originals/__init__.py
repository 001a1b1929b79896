"""The five systems as their authors wrote them, with their gaps and faults, for tests and the demo."""
