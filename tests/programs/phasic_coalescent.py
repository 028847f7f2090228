"""Kingman's coalescent of some samples with phasic: its graph, its elimination trace, and times to the ancestor.

With ``wait`` it says what it has, waits for a line, and then computes on, with what it has in memory and mapped.
"""

import json
import sys

import numpy as np
import phasic
from phasic import hash as phasic_hash
from phasic.trace_elimination import evaluate_trace, record_elimination_trace
from phasic.trace_serialization import load_trace_from_cache, save_trace_to_cache

SAMPLES = int(sys.argv[1])


@phasic.callback([SAMPLES] + [0] * (SAMPLES - 1))
def kingman(state):
    following = []
    for i in range(state.size):
        for j in range(i, state.size):
            same = int(i == j)
            if (same and state[i] < 2) or (not same and (state[i] < 1 or state[j] < 1)):
                continue
            new = state.copy()
            new[i] -= 1
            new[j] -= 1
            new[i + j + 1] += 1
            following.append([new, [state[i] * (state[j] - same) / (1 + same)]])
    return following


def time_to_ancestor(graph, theta):
    graph.update_weights([theta])
    return graph.expectation()


def rates(graph):
    """Of the recorded elimination, which is loaded if it is there."""
    name = phasic_hash.compute_graph_hash(graph).hash_hex
    trace = load_trace_from_cache(name)
    if trace is None:
        trace = record_elimination_trace(graph)
        save_trace_to_cache(name, trace)
    return float(np.sum(evaluate_trace(trace, np.array([2.0]))["vertex_rates"]))


def say(**what):
    print(json.dumps(what), flush=True)


graph = phasic.Graph(kingman)
say(time=time_to_ancestor(graph, 2.0), rates=rates(graph))
if sys.argv[2:] == ["wait"]:
    sys.stdin.readline()
    times = [time_to_ancestor(graph, theta) for theta in (1.0, 4.0)]
    again = phasic.Graph(kingman)
    say(times=times, time=time_to_ancestor(again, 2.0), rates=rates(again))
