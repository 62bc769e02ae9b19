"""What a test's workers have as py-spy: nothing, a script, or the real one."""
import os
import pathlib
import shutil
import sys

NAME = "py-spy"


def py_spy():
    """Where deploy/setup.sh --tests puts it, or on the PATH; None: nowhere."""
    installed = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin" / NAME
    return str(installed) if installed.exists() else shutil.which(NAME)


def interpreter(folder):
    """A link to this interpreter, beside which there is no py-spy."""
    link = folder / "python3"
    link.symlink_to(os.path.realpath(sys.executable))
    return str(link)


def path_with(folder, script):
    """A PATH on which that script is py-spy; None: nothing is."""
    if script is not None:
        (folder / NAME).write_text(script)
        (folder / NAME).chmod(0o755)
    rest = [entry for entry in os.environ["PATH"].split(":") if not (pathlib.Path(entry) / NAME).exists()]
    return ":".join([str(folder), *rest])
