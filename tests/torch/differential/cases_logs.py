"""Files and console (facts 4): -r, -t, filters, --log-dir, prefixes."""
from differential.case import WRONG_VALUE, Case, Exit

TWO = ("--nproc-per-node=2",)
LOGS = (*TWO, "--log-dir={folder}/logs")
BOTH_STREAMS = {"0": ["out zero", "err zero-e"], "1": ["out one", "err one-e"]}


def logs(name, *options, **more):
    return Case(name, (*LOGS, *options), workers=2, plan=more.pop("plan", BOTH_STREAMS), **more)


CASES = (
    logs("a log folder alone holds no file of a worker that is well"),
    *(logs(f"-r {value} writes files and shows nothing of them", "-r", value) for value in "0123"),
    *(logs(f"-t {value} writes files and shows them with a prefix", "-t", value) for value in "0123"),
    logs("redirects by local rank", "-r", "0:1,1:2"),
    logs("redirects of one rank leave the other alone", "--redirects=1:3"),
    logs("tee by local rank", "--tee", "0:3,1:1"),
    logs("redirects and tee together", "-r", "1", "-t", "2"),
    logs("redirects and tee of the same stream", "-r", "3", "-t", "3"),
    Case("a value of redirects that does not exist is refused", (*LOGS, "-r", "4"), workers=0, ends=WRONG_VALUE),
    Case("a map of redirects may name ranks above nine", (*LOGS, "-r", "10:1,1:2"), workers=2, plan=BOTH_STREAMS,
         ends=Exit(1, 0), torchrun_cannot="its pattern takes one digit"),
    Case("a map of redirects that is none is refused", (*LOGS, "-r", "0:1,1"), workers=0, ends=WRONG_VALUE),
    Case("a value of tee that does not exist is refused", (*LOGS, "-t", "both"), workers=0, ends=WRONG_VALUE),
    Case("tee without a log folder", (*TWO, "-t", "3"), workers=2, plan=BOTH_STREAMS),
    Case("redirects without a log folder", (*TWO, "-r", "3"), workers=2, plan=BOTH_STREAMS),
    Case("a role is in the prefix", (*LOGS, "-t", "3", "--role=trainer"), workers=2, plan=BOTH_STREAMS),
    Case("a line prefix of one's own", (*LOGS, "-t", "3"), workers=2, plan=BOTH_STREAMS, environment={
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${role_name} r${rank} l${local_rank}]:"}),
    Case("a line prefix of two nodes says the rank", (
        "--nnodes=2", "--master-addr=127.0.0.1", "--master-port={port}", "-t", "1"), workers=2, plan=BOTH_STREAMS,
        nodes=(("--node-rank=0",), ("--node-rank=1",)), log_folder="", environment={
            "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[r${rank}]:"}),
    logs("a filter shows one local rank of what is not in files", "--local-ranks-filter", "1"),
    logs("a filter shows one local rank of what is tee'd, and all is in the files", "--local-ranks-filter=0", "-t", "3"),
    logs("a filter of redirected streams changes nothing", "--local-ranks-filter=0", "-r", "3"),
    logs("a filter of two ranks", "--local-ranks-filter=0,1", "-t", "1"),
    Case("a filter that is no number is refused", (*LOGS, "--local-ranks-filter=one"), workers=0, ends=WRONG_VALUE),
    logs("lines that bear a word are gathered", "-t", "3", "--duplicate-stdout-filters", "zero,none"),
    logs("lines of stderr that bear a word are gathered", "-t", "3", "--duplicate-stderr-filters=one"),
    logs("lines are not gathered by their prefix", "-t", "3", "--duplicate-stdout-filters=default1"),
    logs("two commas are one in a word to gather", "-t", "3", "--duplicate-stdout-filters=a,,b",
         plan={"0": ["out a,b", "out a"], "1": ["out b"]}),
    logs("without tee no line is gathered", "-r", "3", "--duplicate-stdout-filters=zero"),
    Case("no log folder at all by /dev/null", (*TWO, "--log-dir=/dev/null"), workers=2, plan=BOTH_STREAMS),
    Case("tee with /dev/null as log folder shows all with a prefix", (*TWO, "--log-dir=/dev/null", "-t", "3"),
         workers=2, plan=BOTH_STREAMS),
    Case("a log folder that is there is used", LOGS, workers=2, plan=BOTH_STREAMS, files={"logs/old": "kept"}),
    Case("a log folder is made with its parents", (*TWO, "--log-dir={folder}/logs/a/b", "-r", "1"), workers=2,
         plan=BOTH_STREAMS, log_folder="logs/a/b"),
    Case("the run's id names its log folder", ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}",
                                               "--rdzv-id=job7", "--log-dir={folder}/logs", "-r", "3"),
         plan={"*": ["out o"]}),
    Case("each attempt has log files of its own", ("--log-dir={folder}/logs", "-r", "3", "--max-restarts=1"), attempts=2,
         plan={"*@0": ["out first", "exit 1"], "*@1": ["out second"]}),
    Case("the console without files has no prefix", TWO, workers=2, plan=BOTH_STREAMS),
)
