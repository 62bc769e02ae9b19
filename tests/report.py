"""Adds up the results of the test programs and prints the closing line; the exit code is 0 if everything passed.

  report.py FOLDER FAILED_STAGES [no-tests]

no-tests: no stage that ran has tests, as a build or a style check; otherwise a run in which no test passed has failed.
GoogleTest's own XML is counted case by case; a ctest entry that left none (it crashed, or is no GoogleTest) counts as
one. A stage that failed though no test in it did (a build, a style check) counts as one failure in all.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

SHOWN_FAILURES = 8
SHOWN_LINES = 60  # the last lines of each failure
SHOWN_SLOWEST = 10


def count_googletest(path):
    """Passed, failed, skipped; None when the file was never finished."""
    try:
        cases = ElementTree.parse(path).iter("testcase")
    except ElementTree.ParseError:
        return None
    passed = failed = skipped = 0
    for case in cases:
        if case.get("status") == "notrun":
            continue
        if case.find("failure") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_ctest(folder):
    """One stage's folder: ctest.junit, and the XML of those entries that are GoogleTest."""
    total = [0, 0, 0]
    failed_cases = 0
    reported = set()
    for path in folder.glob("*.xml"):
        counts = count_googletest(path)
        if counts is not None:
            reported.add(re.sub(r"_\d+$", "", path.stem))
            failed_cases += counts[1]
            total = [a + b for a, b in zip(total, counts)]
    failed_entries = 0
    for entry in ElementTree.parse(folder / "ctest.junit").iter("testcase"):
        failed = entry.get("status") == "fail"
        failed_entries += failed
        if entry.get("name") not in reported:
            total[1 if failed else 2 if entry.get("status") in ("notrun", "disabled") else 0] += 1
    if failed_entries > total[1]:  # an entry may fail although its cases passed, for example in a leak check
        total[1] = failed_entries
    return total


def count_unittest(log):
    """A result is at the end of a test's line, or on its own line if the test printed in between."""
    results = re.findall(r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b(?!:)",
                         log.read_text(errors="replace"), re.MULTILINE)
    return [results.count("ok"), sum(map(results.count, ("FAIL", "ERROR", "unexpected success"))),
            results.count("skipped") + results.count("expected failure")]


def count_lines(log):
    """Lines like "model NAME: ok, ...", "mutant NAME: caught" and "fuzz NAME: ok, ...", or the failure instead."""
    results = re.findall(r"^(?:model|mutant|fuzz) \S+: (.*)", log.read_text(errors="replace"), re.MULTILINE)
    passed = sum(result.startswith(("ok", "caught")) for result in results)
    return [passed, len(results) - passed, 0]


def failures_of_ctest(folder):
    """Name and output of each entry that failed."""
    for entry in ElementTree.parse(folder / "ctest.junit").iter("testcase"):
        if entry.get("status") == "fail":
            yield f"{folder.name}: {entry.get('name')}", entry.findtext("system-out", "")


def failures_of_unittest(log):
    """unittest prints each failure in its own block after all tests."""
    for block in re.split(r"^={70}\n", log.read_text(errors="replace"), flags=re.MULTILINE)[1:]:
        title, _, text = block.partition("\n")
        yield title, re.split(r"^-{70}\nRan ", text, flags=re.MULTILINE)[0]


def show_failures(reports):
    """Repeats the failures at the very end, for readers of the end alone."""
    found = [failure for junit in sorted(reports.glob("*/ctest.junit")) for failure in failures_of_ctest(junit.parent)]
    found += [failure for log in reports.glob("python*.log") for failure in failures_of_unittest(log)]
    for name, output in found[:SHOWN_FAILURES]:
        print(f"\n=== failed: {name}", *output.strip().splitlines()[-SHOWN_LINES:], sep="\n")
    if len(found) > SHOWN_FAILURES:
        print(f"\n=== and {len(found) - SHOWN_FAILURES} more, above")


def show_slowest(reports):
    """The tests to look at when a run takes too long. Those of Python outside ctest do not say how long they took."""
    entries = [entry for junit in reports.glob("*/ctest.junit") for entry in ElementTree.parse(junit).iter("testcase")]
    entries.sort(key=lambda entry: float(entry.get("time", "0")), reverse=True)
    slowest = [f"{entry.get('name')} {float(entry.get('time', '0')):.0f} s" for entry in entries[:SHOWN_SLOWEST]]
    if slowest:
        print(f"the slowest: {', '.join(slowest)}")


def main():
    reports, failed_stages = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    counted = [count_ctest(junit.parent) for junit in reports.glob("*/ctest.junit")]
    counted += [count_unittest(log) for log in reports.glob("python*.log")]
    counted += [count_lines(log) for name in ("spin.log", "fuzz.log") for log in reports.glob(name)]
    passed, failed, skipped = (sum(column) for column in zip([0, 0, 0], *counted))
    failed = max(failed, failed_stages)
    show_slowest(reports)
    show_failures(reports)
    closing = f"{passed} passed, {failed} failed"
    print(f"{closing}, {skipped} skipped" if skipped else closing)
    has_tests = "no-tests" not in sys.argv[3:]
    return 1 if failed or (has_tests and not passed) else 0


if __name__ == "__main__":
    sys.exit(main())
