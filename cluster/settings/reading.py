"""Read a stack file strictly: what YAML readers would read differently is refused, with line and column.

Pulumi's engine reads the same file with gopkg.in/yaml.v3, which follows neither YAML 1.1 nor 1.2: `yes` is a text
there and true in YAML 1.1, `1e3` is a number there and a text in YAML 1.1, `1:30` the other way round, and a time
arrives as another text. So a plain scalar is a number only as JSON writes it, and whatever either reader takes for
something else than text needs quotes. (Rules: resolve.go of yaml.v3, and the resolver of PyYAML.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cluster.settings.problems import Problem, SettingsError

MAX_DEPTH = 20
MAX_NODES = 20_000
"""Values in the file, those behind aliases counted each time."""
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,15})(\.\d*[1-9])?", re.ASCII)
"""As JSON writes numbers, without exponent, and integers that every reader holds exactly."""
_NUMBER_IN_GO = re.compile(
    r"[-+]?(0[xob][0-9a-f_]*|[0-9][0-9_]*(\.[0-9_]*)?(e[-+]?[0-9_]*)?|\.[0-9_]+(e[-+]?[0-9_]*)?|\.inf|\.nan)",
    re.ASCII | re.IGNORECASE,
)
_TIME_IN_GO = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([Tt ].*)?", re.ASCII)
_RESOLVER: Any = yaml.resolver.Resolver()
_TEXT = "tag:yaml.org,2002:str"


@dataclass
class _Anchor:
    """What a name stands for; `done` is false while its value is being read, so inside of it."""

    value: Any = None
    nodes: int = 0
    done: bool = False


@dataclass
class _Reader:
    """Builds plain values from the events of one document and collects what is wrong with it."""

    loader: Any
    """A yaml.SafeLoader, of which only the parser is used."""
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, _Anchor] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Any:
        """The value of the only document, or None."""
        self.loader.get_event()  # the stream's start
        if self.loader.check_event(yaml.StreamEndEvent):
            return None
        start = self.loader.get_event()
        if start.explicit and (start.version or start.tags):
            self._problem(start, "", "has a % directive", "Remove it.")
        value = self._value("", 0)
        self.loader.get_event()  # the document's end
        if not self.loader.check_event(yaml.StreamEndEvent):
            event = self.loader.peek_event()
            self._problem(
                event, "", "is a second document; only the first would be read", "Keep one document."
            )
        return value

    def _value(self, path: str, depth: int) -> Any:
        event = self.loader.get_event()
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise _Refused(
                event.start_mark, f"more than {MAX_DEPTH} levels of nesting", "Remove some of them."
            )
        if self.nodes > MAX_NODES:
            raise _Refused(
                event.start_mark, f"more than {MAX_NODES} values", "Remove some, or their aliases."
            )
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        anchor = _Anchor()
        if event.anchor is not None:
            self.anchors[event.anchor] = anchor
        before = self.nodes
        if event.tag is not None:
            self._problem(event, path, f"has the tag {event.tag}", "Remove the tag, and quote texts.")
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path, depth)
        else:
            value = self._mapping(path, depth)
        anchor.value, anchor.nodes, anchor.done = value, self.nodes - before, True
        return value

    def _alias(self, event: Any, path: str) -> Any:
        anchor = self.anchors.get(event.anchor)
        if anchor is None:
            self._problem(event, path, f"there is no anchor &{event.anchor} above", "Write the value out.")
            return None
        if not anchor.done:
            self._problem(event, path, f"*{event.anchor} contains itself", "Write the value out.")
            return None
        self.nodes += anchor.nodes
        return anchor.value

    def _sequence(self, path: str, depth: int) -> list[Any]:
        values: list[Any] = []
        while not self.loader.check_event(yaml.SequenceEndEvent):
            values.append(self._value(f"{path}[{len(values)}]", depth + 1))
        self.loader.get_event()
        return values

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while not self.loader.check_event(yaml.MappingEndEvent):
            event = self.loader.peek_event()
            key = self._value(path, depth + 1)
            where = f"{path}.{key}".lstrip(".")
            if not isinstance(key, str):
                if isinstance(event, yaml.ScalarEvent):
                    self._problem(event, path, f"the key {event.value!r} is not text", "Write it in quotes.")
                else:
                    self._problem(event, path, "has a key that is not text", "Use texts as keys.")
                key = str(key)
            elif key in values:
                self._problem(event, where, f"is there already, in line {lines[key]}", "Keep one of them.")
            lines.setdefault(key, event.start_mark.line + 1)
            values[key] = self._value(where, depth + 1)
        self.loader.get_event()
        return values

    def _scalar(self, event: Any, path: str) -> Any:
        text: str = event.value
        if bad := re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", text):
            what = f"has the character U+{ord(bad[0]):04X}, which can't be part of a value"
            self._problem(event, path, what, "Remove it.")
            return ""
        if event.style is not None or event.tag is not None:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _NUMBER.fullmatch(text) and text != "-0":
            return float(text) if "." in text else int(text)
        if text == "<<":
            self._problem(
                event, path, "merge keys (<<) are read differently by YAML readers", "Write the keys out."
            )
            return text
        tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
        if tag != _TEXT or _NUMBER_IN_GO.fullmatch(text) or _TIME_IN_GO.fullmatch(text):
            self._problem(
                event,
                path,
                f"{text!r} is read differently by YAML readers (as a number, a time, true or false, or text)",
                f'If it is text, write it in quotes: "{text}". {_otherwise(text)}',
            )
        return text

    def _problem(self, event: Any, path: str, what: str, todo: str) -> None:
        self.problems.append(Problem(_at(event.start_mark, path), what, todo))


class _Refused(Exception):
    """The rest of the file can't be read."""

    def __init__(self, mark: Any, what: str, todo: str) -> None:
        super().__init__(what)
        self.problem = Problem(_at(mark, ""), what, todo)


def read(path: Path) -> Any:
    """The file's content: mappings with texts as keys, lists, texts, numbers, true, false and None.

    Raises SettingsError with every problem, each with its line and column. Never raises anything else.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"can't be read as UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        raise _failed(path, Problem("(file)", what, "Save the file in UTF-8.")) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        todo = "Stack files are named stacks/Pulumi.<stack>.yaml."
        raise _failed(path, Problem("(file)", f"can't be read: {reason}", todo)) from None
    try:
        # The loader in Python, so that every machine reads alike, with or without libyaml.
        reader = _Reader(yaml.SafeLoader(text))
        value = reader.document()
    except _Refused as refused:
        raise _failed(path, *reader.problems, refused.problem) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(f"is not valid YAML: {error.context or ''} {error.problem or ''}".split())
        raise _failed(
            path, Problem(_at(mark, "") if mark else "(file)", what, "Correct this line.")
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"has the character U+{ord(text[error.position]):04X}, which YAML doesn't allow"
        raise _failed(path, Problem(f"(line {line})", what, "Remove it.")) from None
    except (ValueError, OverflowError):  # an escape beyond the last character, such as "\UFFFFFFFF"
        what = "has an escape of a character that doesn't exist"
        raise _failed(
            path, Problem("(file)", what, r"Correct the \u and \U in texts in double quotes.")
        ) from None
    if reader.problems:
        raise _failed(path, *reader.problems)
    return value


def _failed(path: Path, *problems: Problem) -> SettingsError:
    return SettingsError(str(path), problems)


def _at(mark: Any, path: str) -> str:
    place = f"(line {mark.line + 1}, column {mark.column + 1})"
    return f"{path.removeprefix('config.')} {place}".lstrip()


def _otherwise(text: str) -> str:
    """How to write what is not meant as text."""
    if text.lower() in ("yes", "on", "no", "off"):
        return f"If not, write {'true' if text.lower() in ('yes', 'on') else 'false'}."
    plain = text.replace("_", "").removeprefix("+")
    try:
        number = float(plain)
    except ValueError:
        return ""
    written = f"{number:.16f}".rstrip("0").rstrip(".") if abs(number) < 10**15 else ""
    return f"If it is a number, write {written}." if _NUMBER.fullmatch(written) else ""
