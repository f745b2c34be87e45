"""Just enough of a terminal to tell what a person sees on it."""

from __future__ import annotations


class Terminal:
    """What a terminal shows after these bytes: just enough of one."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0

    def feed(self, data: bytes) -> None:
        text = data.decode()
        while text:
            if text.startswith("\x1b["):
                end = next(i for i, c in enumerate(text) if c.isalpha())
                number, command = text[2:end], text[end]
                text = text[end + 1 :]
                if command == "A":
                    self.row -= int(number)
                elif command == "J":
                    del self.lines[self.row + 1 :]
                    self.lines[self.row] = self.lines[self.row][: self.column]
                continue
            character, text = text[0], text[1:]
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row, self.column = self.row + 1, 0  # the terminal's driver makes \r\n of it
                self.lines += [""] * (self.row + 1 - len(self.lines))
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
                self.column += 1
