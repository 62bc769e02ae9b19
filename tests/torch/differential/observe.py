"""The results of a run as one flat table from field to value, independent of launcher, machine and time."""
import json
import pathlib
import re
import socket

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PROBE_LINE = re.compile(r"^(?:\[[^\]]*\]:|<[^>]*>\s?)?probe .*$", re.MULTILINE)
THIS_MACHINE = {socket.gethostname(), socket.getfqdn(), "localhost", "127.0.0.1", "::1"}
HARNESS_VARIABLES = {"PROBE_FOLDER", "PROBE_WORKERS", "PROBE_PLAN", "_", "SHLVL"}
REPORT = re.compile(r"^(?P<entry>\S[^\n]*) FAILED\n-+\n(?P<body>.*?)^={10,}$", re.MULTILINE | re.DOTALL)
REPORT_FIELD = re.compile(r"^  (time|host|rank|exitcode|error_file|traceback) *: (.*(?:\n {4,}.*|\n(?!  |\[|-|=).+)*)",
                          re.MULTILINE)


def plain(text, folder):
    """Removes what differs between two runs of the same launcher."""
    text = text.replace(str(folder), "{folder}")
    return UUID.sub("<uuid>", text)


def plain_path(path, folder, run_id):
    """A path below the log folder; the run's folder has its id and a random part in its name."""
    path = plain(path, folder)
    path = re.sub(r"^\{folder\}/tmp/[^/]+/", "<temporary>/", path)
    if run_id:
        path = re.sub(re.escape(plain(run_id, folder)) + r"_[A-Za-z0-9_-]+?(?=/|$)", "<run>", path)
    return path


def host_name(name):
    """A report may have more text after the name."""
    host, blank, more = name.partition(" ")
    return f"<this machine>{blank}{more}" if host in THIS_MACHINE else name


def worker_fields(record, base, folder):
    """One worker's environment (without inherited variables), command, folder, signals."""
    environment = record["environment"]
    run_id = environment.get("TORCHELASTIC_RUN_ID", "")
    fields = {key: record[key] for key in ("name", "blocked", "ignored", "signals", "own session")}
    fields["cwd"] = plain(record["cwd"], folder)
    fields["stdin"] = re.sub(r"\[\d+\]", "", record["stdin"])
    for key in ("argv", "command"):
        fields[key] = [plain(word, folder) for word in record[key]]
    for name in sorted((environment.keys() | base.keys()) - HARNESS_VARIABLES):
        value = environment.get(name)
        if value is None:
            fields[f"env {name}"] = "<vanished>"
        elif name == "TORCHELASTIC_ERROR_FILE":
            fields[f"env {name}"] = plain_path(value, folder, run_id)
        elif name == "MASTER_PORT":
            free = "<port>" if 0 < int(value) < 65536 else value
            fields[f"env {name}"] = "<the given port>" if base.get("PROBE_PORT") == value else free
        elif name == "MASTER_ADDR":
            fields[f"env {name}"] = host_name(value)
        elif name not in base or base[name] != value:
            fields[f"env {name}"] = plain(value, folder)
    return fields


def without_times(text):
    """error.json: the times differ, its form must not."""
    try:
        document = json.loads(text)
        document["message"]["extraInfo"]["timestamp"] = "<time>"
    except (ValueError, KeyError, TypeError):
        return text
    return json.dumps(document, sort_keys=True)


def log_fields(log_folder, folder, run_ids):
    """Every file below the log folder, with its content."""
    fields = {}
    if not log_folder.is_dir():
        return {"logs": "<file>" if log_folder.exists() else "<none>"}
    for path in sorted(log_folder.rglob("*")):
        name = str(path.relative_to(log_folder))
        for run_id in run_ids:
            name = re.sub("^" + re.escape(run_id) + r"_[^/]+", "<run>", name)
        name = re.sub(r"^<run>/attempt_(\d+)/", r"attempt \1: ", name)
        if path.is_dir():
            continue
        content = path.read_text(errors="replace")
        if path.name == "error.json":
            content = without_times(content)
        elif path.name.startswith("filtered"):
            content = sorted(content.splitlines())  # lines of several workers have no order
        fields[f"file {name}"] = content if isinstance(content, list) else plain(content, folder)
    return fields


def report_fields(text, folder, run_id):
    """The root cause in the report on stderr: torchrun's ChildFailedError, or muster's equivalent."""
    found = REPORT.search(text)
    if not found:
        return {"report": "<none>"}
    body = re.split(r"^Root [Cc]ause.*$", found["body"], maxsplit=1, flags=re.MULTILINE)
    if len(body) < 2:
        return {"report": "<no root cause>"}
    fields = {"report": "there", "report entry point": plain(found["entry"], folder)}
    for name, value in REPORT_FIELD.findall(body[1]):
        value = plain(value.strip(), folder)
        if name == "time":
            value = re.sub(r"\d", "0", value)
        elif name == "host":
            value = host_name(value)
        elif name == "exitcode":
            value = re.sub(r"\(pid: \d+\)", "(pid: <pid>)", value)
        elif name == "error_file":
            value = plain_path(value, folder, run_id)
        elif name == "traceback":
            value = re.sub(r"\bPID \d+", "PID <pid>", value)
        fields[f"report {name}"] = value
    return fields


def observe(run, case, base):
    """The whole table of one finished run."""
    fields, run_ids = {}, []
    for record in run.records():
        label = f"worker {record['rank']}" + (f" attempt {record['attempt']}" if case.attempts > 1 else "")
        run_ids.append(record["environment"].get("TORCHELASTIC_RUN_ID", ""))
        fields |= {f"{label}: {name}": value for name, value in worker_fields(record, base, run.folder).items()}
    for number, node in enumerate(run.nodes):
        label = f"node {number}: " if len(run.nodes) > 1 else ""
        out, err = (pathlib.Path(path).read_text(errors="replace") for path in (node.out, node.err))
        fields[f"{label}exit"] = node.status
        fields[f"{label}stdout"] = sorted(PROBE_LINE.findall(out))
        fields[f"{label}stderr"] = sorted(PROBE_LINE.findall(err))
        report = report_fields(err, run.folder, run_ids[0] if run_ids else "")
        fields |= {f"{label}{name}": value for name, value in report.items()}
    if case.log_folder:
        fields |= log_fields(run.folder / case.log_folder, run.folder, {r for r in run_ids if r})
    return fields
