"""`python -m webhook_dispatcher` is the command line."""

import sys

from webhook_dispatcher.cli import main

sys.exit(main())
