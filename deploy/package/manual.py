"""The man page, from the texts of --help, which come from the option table."""
import datetime
import re


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def section(help_text):
    """One text of --help: headings end with a colon, a row is a name and its explanation, deeper lines are examples."""
    lines, out, in_rows = help_text.splitlines(), [], False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        in_rows = in_rows or bool(re.match(r"  \S", line) and re.match(r"      \S", following))
        row = re.match(r"  (\S.*?)(?:  +(\S.*))?$", line) if in_rows else None
        if not line:
            in_rows = False
            out.append(".PP")
        elif re.match(r"\S.*:$", line) and re.match(r"  \S", following):
            in_rows = True
            out += [".SS", escaped(line[:-1])]
        elif row and line[2] != " ":
            out += [".TP", ".B " + escaped(row[1])] + ([escaped(row[2])] if row[2] else [])
        elif in_rows:
            out.append(escaped(line.strip()))
        elif line.startswith("  "):
            out += [".nf", escaped(line), ".fi"]
        else:
            out.append(escaped(line))
    return out


def page(version, made_at, main_help, helps):
    """helps: name of a command -> its --help."""
    day = datetime.datetime.fromtimestamp(made_at, datetime.timezone.utc).strftime("%Y-%m-%d")
    out = [f'.TH MUSTER 1 {day} "muster {version}"', ".SH NAME",
           "muster \\- start, watch and restart a distributed training job", ".SH SYNOPSIS",
           "\\fBmuster\\fR \\fICOMMAND\\fR ...", ".SH DESCRIPTION"]
    out += section(main_help)
    for name, text in helps.items():
        out += [f".SH MUSTER {name.upper()}"] + section(text)
    return ("\n".join(out) + "\n").encode()
