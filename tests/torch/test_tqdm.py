"""Progress bars of the real tqdm on two ranks: a row for each on a terminal, one state in 10 s elsewhere."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import cluster

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from terminal import Screen  # noqa: E402  (a folder without a package)

STEPS = 40
LIMIT_S = 120.0  # only a hang reaches it
# Both ranks redraw at each step and take turns, so that their redraws always mix.
SCRIPT = f"""
import os, sys, time
from tqdm import tqdm
rank, turns = int(os.environ["RANK"]), sys.argv[1]
position = rank if "positions" in sys.argv else 0
for step in tqdm(range({STEPS}), desc=f"rank {{rank}}", mininterval=0, miniters=1, ncols=50, position=position, leave=True):
    open(f"{{turns}}/{{rank}}-{{step}}", "w").close()
    while not os.path.exists(f"{{turns}}/{{1 - rank}}-{{step}}"):
        time.sleep(0.001)
    if step == {STEPS // 2}:
        tqdm.write(f"rank {{rank}} is half way")
    if "slowly" in sys.argv:
        time.sleep(0.02)  # so that a terminal shows some of them
"""
# A bar of the steps below one of the epochs.
NESTED = """
import sys, time
from tqdm import tqdm
for epoch in tqdm(range(3), desc="epoch", mininterval=0, miniters=1, ncols=50):
    for step in tqdm(range(10), desc="step", mininterval=0, miniters=1, ncols=50, leave="leave" in sys.argv):
        if (epoch, step) == (1, 5):
            tqdm.write("half way")
        time.sleep(0.02)  # so that a terminal shows some of them
"""
DONE = r"rank {rank}: 100%\|█+\| {steps}/{steps} \[.*\]"


@unittest.skipUnless(importlib.util.find_spec("tqdm"), "not installed: tqdm")
class Tqdm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "turns").mkdir()
        (self.folder / "bars.py").write_text(SCRIPT)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("MUSTER_", "PET_", "TORCHELASTIC_"))} | {"PYTHONUTF8": "1"}

    def command(self, *options, how=()):
        return [str(cluster.BINARY), *options, "--python", sys.executable, str(self.folder / "bars.py"),
                str(self.folder / "turns"), *how]

    def tee(self, *how):
        return self.command("run", "--standalone", "--nproc-per-node=2", "--log-dir", str(self.folder / "logs"), "-t", "3",
                            how=how)

    def piped(self, command):
        run = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
        output = run.stdout.decode()
        self.assertEqual(run.returncode, 0, output)
        self.assertNotIn("\r", output)
        return output

    def assert_few_states(self, output, prefix):
        """Each rank shows its first state, at most one state per 10 s, its lines, and its end."""
        for rank in (0, 1):
            head = prefix.format(rank=rank)
            mine = [line.removeprefix(head) for line in output.splitlines() if line.startswith(head) and line != head]
            bars = [line for line in mine if line.startswith(f"rank {rank}:")]
            self.assertLessEqual(2, len(bars), output)
            self.assertLess(len(bars), 2 + LIMIT_S / 10, output)
            self.assertRegex(bars[-1], DONE.format(rank=rank, steps=STEPS))
            self.assertIn(f"rank {rank} is half way", mine)
            self.assertEqual(len(bars) + 1, len(mine), output)  # nothing else, and no glued lines

    def test_in_a_pipe_few_states_are_shown(self):
        self.assert_few_states(self.piped(self.tee()), "[default{rank}]:")
        for rank in (0, 1):
            kept = next(self.folder.glob(f"logs/*/attempt_0/{rank}/stderr.log")).read_bytes()
            self.assertLessEqual(STEPS, kept.count(b"\r"))

    def test_a_bar_with_a_position_is_shown_as_others(self):
        output = self.piped(self.tee("positions"))
        self.assertNotIn("\033", output)
        self.assert_few_states(output, "[default{rank}]:")

    def test_muster_local_in_a_pipe_shows_few_states_too(self):
        output = self.piped(self.command("local", "--nodes", "2", "--nproc-per-node=1"))
        self.assert_few_states(output, "[node {rank} rank {rank}] ")

    def test_on_a_terminal_each_rank_keeps_its_row(self):
        self.check_rows()

    def test_on_a_terminal_positioned_bars_keep_their_rows(self):
        self.check_rows("positions")

    def test_muster_local_gives_each_rank_a_row(self):
        self.check_rows(command=self.command("local", "--nodes", "2", "--nproc-per-node=1", how=["slowly"]),
                        prefix="[node {rank} rank {rank}] ")

    def test_muster_local_gives_two_bars_of_a_node_rows(self):
        self.check_rows(command=self.command("local", "--nodes", "1", "--nproc-per-node=2", how=["slowly"]),
                        prefix="[node 0 rank {rank}] ")

    def test_stacked_bars_of_a_rank_have_stacked_rows(self):
        (self.folder / "bars.py").write_text(NESTED)
        for options, head in ((("run", "--standalone", "-t", "3"), "[default0]:"),
                              (("local", "--nodes", "1", "--nproc-per-node=1"), "[node 0 rank 0] ")):
            for how in ([], ["leave"]):
                with self.subTest(options, how=how):
                    screen = self.shown_on_a_terminal(self.command(*options, how=how))
                    rows = [row.removeprefix(head).rstrip() for row in screen.rows() if row.startswith(head)]
                    steps = [r"step: 100%.* 10/10 .*"] * 3 if how else []
                    self.assertEqual(1, rows.count("half way"), "\n".join(screen.rows()))
                    bars = [row for row in rows if row != "half way"]
                    for row, wanted in zip(bars, [*steps, r"epoch: 100%.* 3/3 .*"], strict=True):
                        self.assertRegex(row, wanted)
                    below = re.findall(rf"{re.escape(head)}epoch: [^\r\n]*[\r\n]+{re.escape(head)}step: +\d+%", screen.seen())
                    self.assertLess(3, len(set(below)), screen.seen())  # and the bars did move

    def test_in_a_pipe_few_states_of_stacked_bars_are_shown(self):
        (self.folder / "bars.py").write_text(NESTED)
        output = self.piped(self.command("run", "--standalone", "-t", "3"))
        bars = re.findall(r"(epoch|step): +\d+%", output)
        self.assertEqual(1, len(re.findall("epoch: 100%", output)), output)
        self.assertLess(len(bars), 3 + 2 * LIMIT_S / 10, output)

    def shown_on_a_terminal(self, command):
        screen = Screen(lines=24, columns=100)
        process = subprocess.Popen(command, env=self.environment | {"NO_COLOR": "1"}, stdin=screen.slave,
                                   stdout=screen.slave, stderr=screen.slave, start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(0, process.wait(LIMIT_S), screen.seen())
        screen.close()  # returns once everything is read
        return screen

    def check_rows(self, *how, command=None, prefix="[default{rank}]:"):
        heads = [prefix.format(rank=rank) for rank in (0, 1)]
        screen = self.shown_on_a_terminal(command or self.tee("slowly", *how))
        seen, rows = screen.seen(), screen.rows()
        said = [row for row in rows if "half way" in row]
        self.assertEqual([f"{heads[rank]}rank {rank} is half way" for rank in (0, 1)], sorted(said))
        bars = sorted(row for row in rows if "%|" in row)
        self.assertEqual(2, len(bars), "\n".join(rows))
        for rank, row in enumerate(bars):
            self.assertRegex(row, "^" + re.escape(heads[rank]) + DONE.format(rank=rank, steps=STEPS) + " *$")
        for rank in (0, 1):  # the bar did move
            states = set(re.findall(re.escape(heads[rank]) + rf"rank {rank}: +(\d+)%", seen))
            self.assertLess(3, len(states), seen)


if __name__ == "__main__":
    unittest.main()
