"""A chart of bars as an SVG file, for the README: each group has a title, and bars of a name and seconds."""
import html

WIDTH_PX, NAME_PX, BAR_PX, ROW_PX, TITLE_PX, MARGIN_PX = 760, 190, 460, 24, 34, 16
COLOURS = {"muster --preload": "#1a7f37", "muster": "#4ac26b"}  # others: grey


def shown(seconds):
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def write(path, note, groups):
    """groups: (title, [(name, seconds)]). All bars have one scale."""
    longest = max(seconds for _, bars in groups for _, seconds in bars)
    rows, y = [], MARGIN_PX
    for title, bars in groups:
        rows.append(f'<text class="title" x="{MARGIN_PX}" y="{y + 20}">{html.escape(title)}</text>')
        y += TITLE_PX
        for name, seconds in bars:
            width = max(2, round(BAR_PX * seconds / longest))
            rows.append(f'<text x="{MARGIN_PX}" y="{y + 15}">{html.escape(name)}</text>'
                        f'<rect x="{NAME_PX}" y="{y + 2}" width="{width}" height="{ROW_PX - 7}" rx="2" '
                        f'fill="{COLOURS.get(name, "#8c959f")}"/>'
                        f'<text x="{NAME_PX + width + 8}" y="{y + 15}">{shown(seconds)}</text>')
            y += ROW_PX
    y += 30
    path.write_text(f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {y + 6}" width="{WIDTH_PX}" role="img">
<style>text {{ font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }}
.title {{ font-weight: 600 }} .note {{ font-size: 11.5px; fill: #57606a }}</style>
<rect width="100%" height="100%" fill="#ffffff"/>
""" + "\n".join(rows) + f'\n<text class="note" x="{MARGIN_PX}" y="{y - 8}">{html.escape(note)}</text>\n</svg>\n')
