"""Which multiple of its form every node of a network computes.

A gate ``a x + b y`` is one instruction if one of its constants is ±1 once values are scaled. Each
gate therefore wishes its own scale to fit that of one operand, each output wishes the scale that
its matrix demands, and inputs are given. Wishes are granted one after another, as in Kruskal's
algorithm: groups of nodes whose scales are tied to one another merge as long as nothing
contradicts. A gate left out costs one multiplication, which others may share. The caller draws the
order at random, many times, and keeps the cheapest outcome.
"""

import math
from collections import Counter

from winogen.program.network import ONE
from winogen.program.repair import repair

_NUMBER = -1  # the node that stands for the number one: what is tied to it has a known scale


def alternatives(network):
    """For every gate, all pairs of earlier nodes that give it: [(a, x, b, y), ...].

    Three nodes on a line define each other, so the same node can often be had from other
    neighbours whose scales suit it better. The gate's own pair comes first.
    """
    forms = network.forms()
    result = []
    for index, gate in enumerate(network.gates):
        node = network.width + index
        form = forms[node]
        pivot = next(j for j, c in enumerate(form) if c != 0)
        places = {}
        for k in range(node):
            image = _modulo(forms[k], form, pivot)
            if image is not None:
                places.setdefault(image, []).append(k)
        found = [tuple(gate)]
        for group in places.values():
            for i, x in enumerate(group):
                for y in group[i + 1 :]:
                    if {x, y} != {gate.x, gate.y} and len(found) < 8:
                        found.append(_between(form, forms[x], x, forms[y], y))
        result.append([choice for choice in found if choice is not None])
    return result


def _modulo(form, by, pivot):
    """``form`` modulo ``by``, up to scale; None for zero."""
    f = form[pivot] / by[pivot]
    rest = form if f == 0 else tuple(c - f * d for c, d in zip(form, by))
    lead = next((c for c in rest if c != 0), None)
    return None if lead is None else tuple(c if c == 0 else c / lead for c in rest)


def _between(form, p, x, q, y):
    """(a, x, b, y) with form = a p + b q; None where p and q are one point."""
    for i, j in ((i, j) for i in range(len(p)) for j in range(i)):
        det = p[i] * q[j] - p[j] * q[i]
        if det != 0:
            a = (form[i] * q[j] - form[j] * q[i]) / det
            b = (p[i] * form[j] - p[j] * form[i]) / det
            return a, x, b, y
    return None


class Scales:
    """The scales of all nodes while they are being tied; node -1 is the number one.

    ``value of node = scale * form``; a node's scale is ``ratio * scale of its root``. Signs are
    chosen later, so all scales here are positive.
    """

    def __init__(self, network, choices, free_outputs, free_inputs):
        self.network, self.choices = network, choices
        self.free_outputs, self.free_inputs = free_outputs, free_inputs
        count = network.width + len(network.gates)
        self.root = {node: node for node in range(_NUMBER, count)}
        self.ratio = {node: ONE for node in range(_NUMBER, count)}
        self.members = {node: [node] for node in range(_NUMBER, count)}
        if not free_inputs:
            for node in range(network.width):
                self._tie(node, _NUMBER, ONE)

    def _tie(self, p, q, ratio):
        """scale p = ratio * scale q from now on; False when that contradicts what is tied."""
        a, b = self.root[p], self.root[q]
        if a == b:
            return self.ratio[p] == ratio * self.ratio[q]
        if len(self.members[a]) > len(self.members[b]):
            p, q, a, b, ratio = q, p, b, a, 1 / ratio
        factor = ratio * self.ratio[q] / self.ratio[p]
        for node in self.members.pop(a):
            self.root[node] = b
            self.ratio[node] = self.ratio[node] * factor
            self.members[b].append(node)
        return True

    def _tied(self, p, q, ratio):
        return self.root[p] == self.root[q] and self.ratio[p] == ratio * self.ratio[q]

    def _edges(self, index):
        node = self.network.width + index
        for a, x, b, y in self.choices[index]:
            yield node, x, 1 / abs(a)
            yield node, y, 1 / abs(b)

    def assign(self, rng, order=None):
        """Tie all scales; return (statements, multiplications, size of the constants).

        ``order``: "forward" from the inputs, "backward" from the outputs, None for a random one.
        """
        network = self.network
        wishes = [("gate", k) for k in range(len(network.gates))]
        if not self.free_outputs:
            wishes += [("output", i) for i, out in enumerate(network.outputs) if out is not None]
        if order == "backward":
            wishes.reverse()
        elif order is None:
            rng.shuffle(wishes)
        for kind, k in wishes:
            if kind == "output":
                constant, node = network.outputs[k]
                self._tie(node, _NUMBER, abs(constant))
                continue
            edges = list(self._edges(k))
            if not any(self._tied(*edge) for edge in edges):
                if order is None:
                    rng.shuffle(edges)
                open_edges = [e for e in edges if self.root[e[0]] != self.root[e[1]]]
                # A constant of one ties without leaving an odd scale to the rest.
                open_edges.sort(key=lambda edge: edge[2] != 1)
                if open_edges:
                    self._tie(*open_edges[0])
        # What is still loose can make second constants vanish.
        for k in rng.sample(range(len(network.gates)), len(network.gates)):
            for edge in list(self._edges(k))[:2]:
                self._tie(*edge)
        for node in range(network.width + len(network.gates)):
            self._tie(node, _NUMBER, ONE)
        self.scales = [self.ratio[node] / self.ratio[_NUMBER] for node in range(len(self.root) - 1)]
        if rng is not None:
            self.scales = repair(self, self.scales, rng)
        return self._cost()

    def scale(self, node):
        """The scale of a node: its value is so many times its form."""
        return self.scales[node]

    def _cost(self):
        """Choose per gate among its alternatives, and which products the gates left out share.

        Sets ``chosen`` (gate -> (p, x, q, y): ``value = p * value x + q * value y``; None for a
        gate that nobody needs any more), ``multiples`` (output -> its product) and ``products``
        (in order: ``(constant, node)``).
        """
        width = self.network.width
        self.chosen, depth = [], [0] * width
        for k in range(len(self.network.gates)):
            own = self.scale(width + k)
            options = []
            for a, x, b, y in self.choices[k]:
                p, q = own * a / self.scale(x), own * b / self.scale(y)
                constants = [c for c in (abs(p), abs(q)) if c != 1]
                level = 1 + max(depth[x], depth[y])
                options.append(((len(constants), level, size(constants)), (p, x, q, y)))
            best, option = min(options, key=lambda option: option[0])
            self.chosen.append(option)
            depth.append(best[1])
        self._drop_unneeded()
        self.multiples, self.products = {}, {}
        if not self.free_outputs:
            for i, out in enumerate(self.network.outputs):
                if out is not None and abs(out[0]) != self.scale(out[1]):
                    product = (abs(out[0]) / self.scale(out[1]), out[1])
                    self.multiples[i] = product
                    self.products[product] = None
        self._share_products()
        gates = [option for option in self.chosen if option is not None]
        constants = [c for p, _, q, _ in gates for c in (abs(p), abs(q)) if c != 1]
        constants += [c for c, _ in self.products]
        return len(gates) + len(self.products), len(constants), size(constants)

    def _drop_unneeded(self):
        width = self.network.width
        needed = {out[1] for out in self.network.outputs if out is not None}
        for k in reversed(range(len(self.chosen))):
            if width + k in needed:
                needed.update(self.chosen[k][1::2])
            else:
                self.chosen[k] = None

    def _share_products(self):
        """Products for the gates that have two constants, the one that most of them want first."""
        waiting = []
        for option in self.chosen:
            if option is not None and abs(option[0]) != 1 != abs(option[2]):
                pair = ((abs(option[0]), option[1]), (abs(option[2]), option[3]))
                if not any(product in self.products for product in pair):
                    waiting.append(pair)
        while waiting:
            votes = Counter(product for pair in waiting for product in pair)
            product = max(votes, key=lambda p: (votes[p], -size([p[0]]), -p[1]))
            self.products[product] = None
            waiting = [pair for pair in waiting if product not in pair]


def size(constants) -> float:
    """How long constants are to write and how far from one: 0 for 1, small for 2 or 1/2.

    Powers of two count half, because multiplying by them is exact.
    """
    total = 0.0
    for constant in constants:
        numerator = getattr(constant, "numerator", None)
        if numerator is None:  # irrational
            total += 8
            continue
        bits = math.log2(abs(numerator)) + math.log2(constant.denominator)
        exact = numerator & (numerator - 1) == 0 == constant.denominator & (constant.denominator - 1)
        total += bits / 2 if exact else bits
    return total
