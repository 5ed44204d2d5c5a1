"""`python -m trackside`: the command line."""

import sys

from trackside import main

sys.exit(main())
