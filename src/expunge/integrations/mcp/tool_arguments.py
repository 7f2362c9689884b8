"""The arguments of a tool, from its signature: their JSON Schema, and their check.

Texts stay texts: nothing that a client sends as a string is parsed as JSON, so "123", "null" and a receipt reach the
tool as they are. An argument that a tool does not have is refused by name, and so is one of another type.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from expunge.errors import InputError
from expunge.integrations.mcp.tools import NewNote

__all__ = ["ToolArguments", "answer_schema"]

# Problems that one answer lists.
_LISTED = 5
# The parser keeps no strings: they would outlive the notes that they are in.
_STRICT = ConfigDict(extra="forbid", strict=True, cache_strings="none")


class _WithoutTitles(GenerateJsonSchema):
    """JSON Schema without titles, which repeat the names of fields and cost a model's attention."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Set none."""
        return False


class ToolArguments:
    """What a tool takes.

    Parameters
    ----------
    name : str
        Name of the tool, for errors.
    tool : callable
        Its parameters are annotated with a type and, in ``Annotated``, a description.

    """

    def __init__(self, name: str, tool: Callable[..., Any]) -> None:
        self._name = name
        hints = get_type_hints(tool, include_extras=True)
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(tool).parameters.values():
            if parameter.name != "self":
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[parameter.name] = (_described(hints[parameter.name]), default)
        self._names = list(fields)
        self._model = create_model(f"{name}_arguments", __config__=_STRICT, **fields)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments; it allows no others. What may be left out may also be null."""
        made: dict[str, Any] = self._model.model_json_schema(schema_generator=_WithoutTitles)
        note = made.pop("$defs", {}).get(NewNote.__name__)
        if note is not None:
            for name, hint in get_type_hints(NewNote, include_extras=True).items():
                note["properties"][name]["description"] = get_args(hint)[1]
        properties = {name: _plain(part, note) for name, part in made["properties"].items()}
        del made["title"]
        return made | {"properties": properties}

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the tool takes them; InputError for those that it does not take."""
        try:
            # In the JSON mode, a strict model still makes a note of an object.
            found = self._model.model_validate_json(json.dumps(arguments))
        except ValidationError as problem:
            raise InputError("; ".join(self._told(dict(one)) for one in problem.errors()[:_LISTED])) from None
        return {name: getattr(found, name) for name in self._names}

    def _told(self, problem: dict[str, Any]) -> str:
        place = ".".join(map(str, problem["loc"]))
        if problem["type"] == "json_invalid":
            return f"the arguments are no JSON in Unicode ({problem['msg']})"
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            inside = "a note" if len(problem["loc"]) > 1 else self._name
            known = NewNote.__dataclass_fields__ if len(problem["loc"]) > 1 else self._names
            return f"{inside} has no argument {problem['loc'][-1]!r:.80}: it takes {', '.join(known)}"
        if problem["type"] in ("missing", "missing_argument"):
            return f"{self._name} needs {place}"
        wanted = str(problem["msg"]).removeprefix("Input should be ")
        return f"{place:.80} must be {wanted}, not {problem['input']!r:.80}"


def answer_schema(answer: TypeAdapter[Any]) -> dict[str, Any]:
    """JSON Schema of what a tool answers."""
    return answer.json_schema(mode="serialization", schema_generator=_WithoutTitles)


def _described(hint: Any) -> Any:
    """A type with its description, as pydantic takes it."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    return Annotated[kind, Field(description=" ".join(map(str, notes)))]


def _plain(part: dict[str, Any], note: dict[str, Any] | None) -> dict[str, Any]:
    """A property without the null that stands for leaving it out, and with a note's schema in place of its name."""
    kept = {name: value for name, value in part.items() if (name, value) != ("default", None)}
    if "anyOf" in kept:
        kept = kept.pop("anyOf")[0] | kept
    if note is not None and "$ref" in kept.get("items", {}):
        inside = {name: _plain(value, None) for name, value in note["properties"].items()}
        kept["items"] = note | {"properties": inside}
    return kept
