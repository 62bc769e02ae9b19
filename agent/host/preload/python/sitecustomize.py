"""The start of the preloading Python of `muster run --preload`; see the package muster_preload.

Python imports this module by itself, after the interpreter is complete and before the script. A fork that becomes a
worker returns from here: the interpreter then goes on to run the script as in any other process, so that `__main__`,
sys.path, tracebacks and exit codes are the interpreter's own work, and no frame of muster is on the stack.
"""

import os
import sys

OURS = sys.modules[__name__]
is_worker = False
try:
    from muster_preload import start

    start.run()
    is_worker = True
except BaseException as error:
    os.write(5, ("failed\0%s: %s" % (type(error).__name__, error)).encode(errors="replace"))
finally:
    if not is_worker:
        os._exit(70)  # after an exception the interpreter would go on to the script
if "sitecustomize" not in sys.modules:
    # site passes over this error, and the import machinery forgets this module.
    sys.modules["sitecustomize"] = OURS
    raise ImportError("there is no sitecustomize", name="sitecustomize")
