"""One run in a directory of its own. It ends everything that it has started, whatever happens."""
import shutil
import signal
import sys
import tempfile


def carry_out(make, options, prefix):
    """Exits with 0 if `make(options, directory).go()` returns true, else with 1. `--keep` keeps the directory."""
    directory = tempfile.mkdtemp(prefix=prefix)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run = None
    try:
        run = make(options, directory)
        is_right = run.go()
    finally:
        if run:
            run.stop()
        if options.keep:
            print("kept:", directory)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    sys.exit(0 if is_right else 1)
