"""docs/reference/docstrings.md, made from the docstrings of the public names.

``python -m tests.helpers.api_page`` writes the present page.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, ForwardRef

import jcache
from tests.helpers.documents import ROOT

PAGE: Final = ROOT / "docs/reference/docstrings.md"
TITLE: Final = """\
# Docstrings

The docstrings of all public names, as `help(jcache.enable)` prints them; the
[Python API](python-api.md) is their overview. Times that end in `_ns` are nanoseconds since 1970.
"""
_WIDTH: Final = 100
_SECTION: Final = re.compile(r"^(Args|Attributes|Returns|Raises|Warns|Yields|Example|Note):$")
_FIELD: Final = re.compile(r"^    (\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (.*)$")
_MODULE: Final = re.compile(r"\b(?:jcache(?:\.\w+)*|collections\.abc|typing)\.(?=\w)")


def page() -> str:
    """Return the whole page."""
    values = {name: getattr(jcache, name) for name in jcache.__all__}
    sorts: dict[str, list[str]] = {"Functions": [], "Classes and values": [], "Errors": []}
    for name, value in values.items():
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        sorts["Errors" if is_error else "Classes and values" if inspect.isclass(value) else "Functions"].append(name)
    sections = [
        f"## {title}\n\n" + "\n".join(_named(name, values[name]) for name in names) for title, names in sorts.items()
    ]
    return "\n".join([TITLE, *sections])


def _named(name: str, value: Any) -> str:  # anything public
    text = f"### jcache.{name}\n\n{_signature(name, value)}{_markdown(inspect.getdoc(value) or '')}"
    if not inspect.isclass(value):
        return text
    if issubclass(value, Enum):
        return f"{text}\n{_wrapped('Values: ' + ', '.join(f'`{each.value}`' for each in value) + '.')}"
    for method, function in _methods(value):
        text += f"\n#### {name}.{method}\n\n{_signature(method, function)}{_markdown(inspect.getdoc(function) or '')}"
    return text


def _methods(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class itself documents."""
    for name, member in vars(value).items():
        function = _getter(member) or getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
            yield name, member


def _getter(member: Any) -> Any:
    """Return the function of a property, also of a cached one, None for anything else."""
    return getattr(member, "fget", None) or getattr(member, "func", None)


def _signature(name: str, value: Any) -> str:
    """Return the block with the parameters of a function or class, or with the type of a property."""
    if inspect.isclass(value) and issubclass(value, Exception | Enum):
        return ""
    if getter := _getter(value):
        return f"```py\n{name}: {_annotation(inspect.signature(getter).return_annotation)}\n```\n\n"
    signature = inspect.signature(getattr(value, "__func__", value))
    bound = "cls" if isinstance(value, classmethod) else "self"
    parameters = [each for each in signature.parameters.values() if each.name != bound]
    texts = _with_marks([_parameter(each) for each in parameters], parameters)
    result = signature.return_annotation
    end = ")" if result is signature.empty or inspect.isclass(value) else f") -> {_annotation(result)}"
    line = f"{name}({', '.join(texts)}{end}"
    if len(line) > _WIDTH - 10:
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in texts) + end
    return f"```py\n{line}\n```\n\n"


def _with_marks(texts: list[str], parameters: list[inspect.Parameter]) -> list[str]:
    """Return the texts with the star before keywords and the slash behind positional parameters."""
    kinds = [each.kind for each in parameters]
    made: list[str] = []
    for at, text in enumerate(texts):
        before = kinds[at - 1] if at else None
        if kinds[at] is inspect.Parameter.KEYWORD_ONLY and before not in (kinds[at], inspect.Parameter.VAR_POSITIONAL):
            made.append("*")
        made.append(text)
        positional = inspect.Parameter.POSITIONAL_ONLY
        if kinds[at] is positional and (at + 1 == len(kinds) or kinds[at + 1] is not positional):
            made.append("/")
    return made


def _parameter(parameter: inspect.Parameter) -> str:
    default = parameter.default
    text = parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if default is not parameter.empty:
        text += f" = {_default(default)}"
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return stars.get(parameter.kind, "") + text


def _default(value: Any) -> str:
    """Return the text of a default: dots for a marker, whose repr is its address."""
    return "..." if type(value) is object else repr(str(value) if isinstance(value, Enum) else value)


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):  # of a namedtuple
        annotation = annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _MODULE.sub("", text.replace("'", ""))


def _markdown(text: str) -> str:
    """Return a docstring in Google's style as Markdown."""
    parts = [[""]]
    for line in text.splitlines():
        if _SECTION.match(line):
            parts.append([line])
        else:
            parts[-1].append(line)
    return "".join(_part(heading, lines) for heading, *lines in parts)


def _part(heading: str, lines: list[str]) -> str:
    text = "\n".join(lines).strip("\n")
    if not heading:
        return _paragraphs(text)
    title = f"\n**{heading.removesuffix(':')}**\n\n"
    if heading == "Example:":
        return f"{title}```pycon\n{textwrap.dedent(text)}\n```\n"
    if not _FIELD.match(text.split("\n")[0]):
        return title + _paragraphs(textwrap.dedent(text))
    fields: list[str] = []
    for line in text.splitlines():
        if found := _FIELD.match(line):
            fields.append(f"`{found[1]}`: {found[2]}")
        else:
            fields[-1] += f" {line.strip()}"
    return title + "".join(_wrapped(f"- {field}", indent="  ") for field in fields)


def _paragraphs(text: str) -> str:
    made = []
    for paragraph in re.split(r"\n\n+", text):
        is_code = paragraph.startswith("    ")
        made.append(f"```py\n{textwrap.dedent(paragraph)}\n```\n" if is_code else _wrapped(paragraph))
    return "\n".join(made)


def _wrapped(text: str, indent: str = "") -> str:
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
