"""`python -m tidefill.cli`."""

import sys

from tidefill.cli import main

sys.exit(main())
