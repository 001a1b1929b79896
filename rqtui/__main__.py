"""Run the command `rqtui` as `python -m rqtui`."""

import sys

from rqtui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
