"""The part of a decision tree that somebody has walked: draws without repetition.

A node is made when a walk first comes by, so a space of 10^20 leaves costs as much memory as its
walks are long. A leaf keeps the result of its path. A subtree whose leaves have all been drawn is
closed and not entered again, so no path is drawn twice, and drawing ends when all are out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from winogen.tasks.space import Level, Path, Space, even


@dataclass
class TreeNode:
    """A node that was visited."""

    left: int  # children that are not closed; of a leaf 1 until it is drawn
    children: dict[Hashable, TreeNode] = field(default_factory=dict)  # value -> node made so far
    result: Any = None  # of a leaf

    @property
    def closed(self) -> bool:
        """Whether all leaves below have been drawn."""
        return self.left == 0


class Tree:
    """The visited nodes of a space.

    >>> from winogen.tasks.space import Level
    >>> tree = Tree(Space([Level("a", lambda path: (1, 2)), Level("b", lambda path: (3, 4))]))
    >>> drawn = tree.draw(Random(0))
    >>> tree.nodes
    3
    >>> others = [tree.draw(Random(0)) for _ in range(3)]
    >>> drawn in others, tree.draw(Random(0)) is None, tree.nodes
    (False, True, 7)
    """

    def __init__(self, space: Space):
        self.space = space
        self.nodes = 0  # made so far
        self._root = self._node(space.begin())

    def _node(self, path: Path) -> TreeNode:
        self.nodes += 1
        level = self.space.level(path)
        return TreeNode(1 if level is None else len(self.space.choices(path)))

    def draw(self, random: Random, within: Space | None = None) -> dict[str, Any] | None:
        """Return the decisions of a leaf that was not drawn before; None if there is none left.

        ``within``: draw from this restriction of the space only. At every level a value is drawn by
        weight among the values that lead to such a leaf. The same seed gives the same draws.
        """
        path = self.space.begin()
        if self._root.closed or not self._walk(self._root, path, within or self.space, random):
            return None
        return self.space.decisions(path)

    def _walk(self, node: TreeNode, path: dict[str, Any], within: Space, random: Random) -> bool:
        """Extend a path to a leaf that is not drawn yet, and draw it; False if there is none."""
        level = self.space.level(path)
        if level is None:
            node.left = 0
            return True
        values = [
            value
            for value in within.choices(path)
            if (child := node.children.get(value)) is None or not child.closed
        ]
        size = len(path)
        while values:
            value = drawn(values, level, path, random)
            self.space.extend(path, value)
            child = node.children.get(value)
            if child is None:
                child = node.children[value] = self._node(path)
            if self._walk(child, path, within, random):
                node.left -= child.closed
                return True
            # Whatever lies below within the restriction was drawn before. That cannot happen below
            # a new node, so a walk never makes more nodes than it has levels.
            values.remove(value)
            while len(path) > size:
                path.popitem()
        return False

    def leaf(self, decisions: Path) -> TreeNode | None:
        """Return the leaf of a path; None if no walk came by."""
        node: TreeNode | None = self._root
        for level in self.space.levels:
            node = node.children.get(decisions[level.name]) if node else None
        return node


def drawn(values: Sequence[Hashable], level: Level, path: Path, random: Random) -> Any:
    """Return one of ``values``, drawn in proportion to the weights of the level.

    By a single number from [0, 1), which all versions of Python draw alike.
    """
    if level.weight is even:
        return values[int(random.random() * len(values))]
    weights = [level.weight(value, path) for value in values]
    rest = random.random() * sum(weights)
    for value, weight in zip(values, weights):
        rest -= weight
        if rest < 0:
            return value
    return values[-1]  # by rounding
