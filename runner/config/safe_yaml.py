"""Reading YAML that may be hostile: plain data only, bounded before any of it is built."""

from __future__ import annotations

from typing import Any, NoReturn

import yaml

from ..errors import ConfigError

MOST_CHARACTERS = 1024 * 1024  # 1 MiB; PyYAML reads about 100 kB a second
MOST_DEPTH = 16  # the deepest key there is lies at 5
MOST_ALIASES = 100  # uses of anchors; people share a handful of blocks
MOST_NODES = 20_000  # scalars, lists and mappings once all aliases and merges are written out
MOST_PROBLEM = 200  # characters of an error that may quote the text


class _Loader(yaml.SafeLoader):
    """Plain YAML only: no tags, no key twice, text keys; depth, aliases and size bounded before anything is built."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = self.aliases = self.nodes = 0
        self.sizes: dict[yaml.Node, int] = {}  # of finished nodes, all aliases in them written out

    def compose_node(self, parent: yaml.Node | None, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        alias = isinstance(event, yaml.AliasEvent)
        self.aliases += alias
        self.depth += 1
        if getattr(event, "tag", None) is not None:
            self._refuse(event, f"the tag {event.tag} is not wanted; only plain YAML is read")
        if self.depth > MOST_DEPTH:
            self._refuse(event, f"nested more than {MOST_DEPTH} deep")
        if self.aliases > MOST_ALIASES:
            self._refuse(event, f"more than {MOST_ALIASES} uses of aliases")
        before = self.nodes
        node: Any = super().compose_node(parent, index)
        if alias and node not in self.sizes:
            self._refuse(event, f"the alias *{event.anchor} contains itself")
        self.nodes += self.sizes[node] if alias else 1
        if self.nodes > MOST_NODES:
            self._refuse(event, f"more than {MOST_NODES} values, aliases written out")
        self.sizes.setdefault(node, self.nodes - before)
        self.depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                self._refuse(key, "a key must be text; put it in quotes")
            if key.value in seen:
                self._refuse(key, f"the key {key.value!r} stands here twice")
            seen.add(key.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError):  # 2027-13-45, a number of ten thousand digits
            self._refuse(node, "not a value that can be read")

    def _refuse(self, place: Any, problem: str) -> NoReturn:
        raise yaml.constructor.ConstructorError(None, None, problem, place.start_mark)


def read(text: str, source: str) -> Any:
    """The one document in `text`: mappings with text keys, lists, scalars; None where it is empty.

    Raises:
        ConfigError: starts with `source`, line and column.
    """
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"{source}: longer than {MOST_CHARACTERS} characters")
    try:
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{source}{place}: {one_line(problem)[:MOST_PROBLEM]}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: {one_line(str(error))[:MOST_PROBLEM]}") from None


def one_line(text: str) -> str:
    """`text` with every run of white space, line ends included, as one blank."""
    return " ".join(text.split())
