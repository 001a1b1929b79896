"""Run the command `rqtui` as `python -m rqtui`."""

import sys

from rqtui.cli.main import main

if __name__ == "__main__":
    code = main()
    # CPython marks a KeyboardInterrupt that left `exec` of a string as unhandled even if it was caught further out
    # (Python/pythonrun.c, run_eval_code_obj), and under `-m` ends the process with SIGINT then. Dataclasses use `exec`,
    # so a signal during an import would replace the exit code. The next `exec` of a string clears the mark.
    exec("")  # noqa: S102
    sys.exit(code)
