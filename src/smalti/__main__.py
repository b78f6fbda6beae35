"""`python -m smalti` is `smalti`."""

import sys

from smalti.cli.main import main

sys.exit(main())
