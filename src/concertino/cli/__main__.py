"""Entry point of `python -m concertino.cli`."""

import sys

from . import main

sys.exit(main())
