"""`python -m rqtui`: the same as the command `rqtui`."""

import sys

from rqtui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
