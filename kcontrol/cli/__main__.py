"""`python -m kcontrol.cli`: the same as `kcontrol`, for processes that are started with this very
interpreter."""

from kcontrol.cli.main import main

main()
