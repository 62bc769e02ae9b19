"""The same command lines under torchrun and muster: compares the workers' start, the written files and the end.

A case is a line of data in cases_*.py. MUSTER_NOT_YET=fail shows what a case of NOT_YET lacks. To run torchrun's side
only once during work on muster: MUSTER_TORCHRUN_CACHE=FOLDER. -k takes words of a case's name, joined by _.
"""
import concurrent.futures
import importlib.metadata
import importlib.util
import os
import re
import unittest

from differential import cases_failures, cases_logs, cases_membership, cases_parsing, cases_workers
from differential.compare import unexplained
from differential.differences import DIFFERENCES, NOT_YET
from differential.launchers import BINARY, CALLED, MusterProcess, TorchrunCache, TorchrunServer, run_case
from differential.observe import observe

TORCH_VERSION = "2.13"  # the version of torchrun in the comparison
TORCHRUNS_AT_ONCE = int(os.environ.get("MUSTER_TORCHRUNS_AT_ONCE", "2"))
SECTIONS = {"Failures": cases_failures.CASES, "Logs": cases_logs.CASES, "Membership": cases_membership.CASES,
            "Parsing": cases_parsing.CASES, "Workers": cases_workers.CASES}
CASES = [case for section in sorted(SECTIONS) for case in sorted(SECTIONS[section], key=lambda case: case.name)]
NO_REPORT = (0, 64, 65)  # exit codes
FIELDS_OF_THE_END = re.compile(r"(?:node \d+: )?exit")


def has_torch():
    return importlib.util.find_spec("torch") and importlib.metadata.version("torch").startswith(TORCH_VERSION)


class Torchruns:
    """Runs torchrun's side, some cases ahead of muster's."""

    def __init__(self):
        self._cache = TorchrunCache(os.environ.get("MUSTER_TORCHRUN_CACHE"))
        self._pool = concurrent.futures.ThreadPoolExecutor(TORCHRUNS_AT_ONCE)
        self._server, self._futures = None, {}

    def result(self, case):
        place = CASES.index(case)
        for wanted in CASES[place:place + TORCHRUNS_AT_ONCE]:
            if wanted.name not in self._futures:
                self._futures[wanted.name] = self._submit(wanted)
        return self._futures[case.name].result()

    def _submit(self, case):
        known = self._cache.get(case)
        if known is not None:
            future = concurrent.futures.Future()
            future.set_result(known)
            return future
        if self._server is None:
            self._server = TorchrunServer()
        return self._pool.submit(self._run, case)

    def _run(self, case):
        result = run_case(case, self._server, observe)
        self._cache.put(case, result)
        return result

    def close(self):
        self._pool.shutdown()
        if self._server is not None:
            self._server.close()


torchruns = None
reasons_used, cases_compared = set(), set()


def setUpModule():
    global torchruns
    torchruns = Torchruns()


def tearDownModule():
    torchruns.close()


def split_ends(fields):
    """Separates the exit codes, which each case states for both launchers, from the fields that must be equal."""
    ends = {value for field, value in fields.items() if FIELDS_OF_THE_END.fullmatch(field)}
    return ends, {field: value for field, value in fields.items() if not FIELDS_OF_THE_END.fullmatch(field)}


def count_workers(fields):
    return sum(field.endswith(": command") for field in fields)


class Differential(unittest.TestCase):
    maxDiff = None

    def compare(self, case):
        theirs, their_output = torchruns.result(case)
        their_ends, theirs = split_ends(theirs)
        self.assertEqual(their_ends, {case.ends.torchrun}, f"torchrun's exit codes\n{their_output}")
        if not case.torchrun_cannot:
            self.assertEqual(count_workers(theirs), case.workers * case.attempts, f"torchrun's workers\n{their_output}")
        wrong, output = self.muster_against(case, theirs)
        cases_compared.add(case.name)
        if case.name in NOT_YET and os.environ.get("MUSTER_NOT_YET") != "fail":
            self.assertTrue(wrong, "this case agrees now: take it off NOT_YET")
            self.skipTest(f"not yet: {len(wrong)} differences, the first: {' '.join(wrong[0].split())[:160]}")
        if wrong:
            self.fail("\n" + "\n".join(wrong) + f"\n===== torchrun printed\n{their_output}"
                      f"\n===== muster printed\n{output}")

    def muster_against(self, case, theirs):
        """The errors, and muster's output."""
        try:
            ours, output = run_case(case, MusterProcess, observe)
        except AssertionError as error:
            return [str(error)], ""
        ends, ours = split_ends(ours)
        if CALLED == "launcher" and (case.torchrun_cannot or case.workers == 0) and ends == {case.ends.torchrun}:
            return [], output  # torch's own parser refuses it, in muster's place
        wrong = [] if ends == {case.ends.muster} else [f"exit code {ends}, not {case.ends.muster}"]
        if case.torchrun_cannot:
            started = count_workers(ours)
            wanted = case.workers * case.attempts
            wrong += [] if started == wanted else [f"{started} workers, not {wanted}"]
            wrong += [] if case.ends.muster in NO_REPORT or ours["report"] == "there" else ["no report"]
            return wrong, output
        return wrong + unexplained(case, theirs, ours, reasons_used), output


def method_name(case):
    return "test_" + re.sub(r"[^A-Za-z0-9]+", "_", case.name).strip("_")


def add_section(section, cases):
    methods = {method_name(case): lambda self, case=case: self.compare(case) for case in cases}
    assert len(methods) == len(cases), f"two cases of {section} bear one name"
    name = f"{section}Test"
    globals()[name] = unittest.skipUnless(has_torch(), f"torch {TORCH_VERSION} is not installed")(
        type(name, (Differential,), methods | {"__module__": __name__, "__qualname__": name}))


for _section, _cases in SECTIONS.items():
    add_section(_section, _cases)
del Differential  # the base class is no test itself


class ZListsTest(unittest.TestCase):
    """Runs last, by its name: checks that the lists are true."""

    def test_unexplained_differences_are_reported(self):
        case = CASES[0]
        store = "worker 0: env TORCHELASTIC_USE_AGENT_STORE"
        self.assertEqual(unexplained(case, {"a": 1, store: "True"}, {"a": 1, store: "False"}, set()), [])
        for theirs, ours in (({"a": 1}, {"a": 2}), ({"a": 1}, {}), ({}, {"a": 1}), ({store: "False"}, {store: "True"})):
            self.assertEqual(len(unexplained(case, theirs, ours, set())), 1)

    @unittest.skipUnless(has_torch(), f"torch {TORCH_VERSION} is not installed")
    def test_the_torchrun_program_runs_the_compared_main(self):
        scripts = importlib.metadata.distribution("torch").entry_points.select(group="console_scripts", name="torchrun")
        self.assertEqual([script.value for script in scripts], ["torch.distributed.run:main"])

    def test_every_name_in_not_yet_is_a_case(self):
        self.assertFalse(NOT_YET - {case.name for case in CASES})

    def test_there_are_sixty_cases_with_distinct_names(self):
        self.assertGreaterEqual(len(CASES), 60)
        self.assertEqual(len({case.name for case in CASES}), len(CASES))

    def test_every_deliberate_difference_is_shown_by_a_case(self):
        if len(cases_compared) < len(CASES):
            self.skipTest("not all cases were run")
        if NOT_YET:
            self.skipTest(f"{len(NOT_YET)} cases do not agree yet")
        unused = [entry.reason for entry in DIFFERENCES if entry not in reasons_used]
        self.assertFalse(unused)


if __name__ == "__main__":
    if not BINARY.exists():
        raise SystemExit(f"{BINARY} is not there: build it, or set MUSTER_BINARY")
    unittest.main(verbosity=2)
