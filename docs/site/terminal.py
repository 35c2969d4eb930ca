"""Writes a page that looks like a terminal: tmux capture-pane -e -p | python3 terminal.py COLUMNS > page.html"""
import html
import re
import sys

# The palette of the page: the 16 colours by their SGR numbers, as in most dark terminals.
COLOURS = {31: "#f7768e", 32: "#9ece6a", 33: "#e0af68", 36: "#7dcfff"}
TEXT, GROUND = "#c9d1d9", "#0d1117"


def styled(text, codes):
    """Returns text in a span with the style of the SGR codes that are on."""
    if not text:
        return ""
    colour, ground = next((COLOURS[c] for c in codes if c in COLOURS), TEXT), None
    if 7 in codes:
        colour, ground = GROUND, colour
    style = f"color:{colour}"
    if ground:
        style += f";background:{ground}"
    if 1 in codes:
        style += ";font-weight:bold"
    if 2 in codes:
        style += ";opacity:.6"
    return f'<span style="{style}">{html.escape(text)}</span>'


codes = set()  # of the style that is on, also in the next line


def line(text):
    """Turns the escape sequences of a line into spans."""
    global codes
    out = ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", text.rstrip("\n").replace("\x0e", "").replace("\x0f", "")):
        if not part.startswith("\x1b["):
            out += styled(part, codes)
            continue
        for code in map(int, part[2:-1].split(";") if part != "\x1b[m" else ["0"]):
            off = {0: set(codes), 22: {1, 2}, 27: {7}, 39: set(COLOURS)}.get(code)
            codes = codes - off if off is not None else codes | {code}
    return out


columns = int(sys.argv[1])
lines = "\n".join(line(text) for text in sys.stdin)
print(
    f"""<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: {GROUND} }}
pre {{ margin: 0; padding: 12px; font: 16px/19px "DejaVu Sans Mono", monospace; width: {columns}ch; color: {TEXT} }}
</style><pre>{lines}</pre>"""
)
