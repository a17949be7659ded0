"""What tests of signals share."""

import signal


def take_ctrl_c() -> None:
    """What a shell starts in the background ignores it, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
