"""What --hang-timeout costs a node with 8 workers: processor time of host and agent, and of the workers.

Each worker prints a line every second and writes nothing else; with and without the option by turns. It asserts nothing.

    hang_watch.py [ROUNDS]      default: 5
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from processes import children  # noqa: E402

BINARY = pathlib.Path(os.environ.get("MUSTER_BINARY", ROOT / "build/release/bin/muster")).resolve()
WORKERS = 8
SETTLES_S = 3.0
MEASURED_S = 20.0
WORKER = """
import time
while True:
    print("step", flush=True)
    time.sleep(1)
"""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pids):
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


def measure(options):
    """Percent of one processor: of muster's processes, and of the workers."""
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "worker.py"
        script.write_text(WORKER)
        command = [BINARY, "run", "--standalone", "--nproc-per-node", str(WORKERS), *options, "--python", sys.executable,
                   str(script)]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(SETTLES_S)
            found = children(job.pid)
            agents = [pid for pid in found if b"agent" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
            workers = [pid for pid in found if pid not in agents]
            assert len(workers) == WORKERS, found
            before = cpu_s([job.pid, *agents]), cpu_s(workers)
            time.sleep(MEASURED_S)
            after = cpu_s([job.pid, *agents]), cpu_s(workers)
        finally:
            job.terminate()
            job.wait(30)
    return [100 * (b - a) / MEASURED_S for a, b in zip(before, after)]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{WORKERS} workers, % of a processor       muster   workers")
    for _ in range(rounds):
        for name, options in (("without", []), ("--hang-timeout 5m", ["--hang-timeout", "5m"])):
            ours, theirs = measure(options)
            print(f"{name:30} {ours:11.2f} {theirs:9.2f}", flush=True)


if __name__ == "__main__":
    main()
