"""`python -m webhook_dispatcher` is the command line."""

import sys

try:
    from webhook_dispatcher.cli import main

    code = main()
except KeyboardInterrupt:
    code = 130  # as the command line does once it is there
sys.exit(code)
