"""Decoders of connectionist temporal classification; class 0 is the blank (CPU only)."""

from __future__ import annotations

import heapq
from collections import defaultdict

import numpy as np

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import operator


def _lengths(INPUTS, SEQ_LEN):
    """The number of time steps of each sequence."""
    if INPUTS.ndim != 3:
        raise ValueError(f"the input must be [time, batch, classes], got shape {list(INPUTS.shape)}")
    steps, batch, classes = INPUTS.shape
    lengths = [steps] * batch if SEQ_LEN is None else _checked(SEQ_LEN, steps, batch)
    if not classes and any(lengths):
        raise ValueError(f"there are no classes to choose from: the input is {list(INPUTS.shape)}")
    return lengths


def _checked(SEQ_LEN, steps, batch):
    if SEQ_LEN.shape != (batch,):
        raise ValueError(f"there must be a length for each of {batch} sequences, got shape {list(SEQ_LEN.shape)}")
    if batch and SEQ_LEN.max() > steps:
        raise ValueError(f"a sequence has {int(SEQ_LEN.max())} steps, and the input has {steps}")
    return SEQ_LEN.tolist()


@operator("OUTPUT_LEN VALUES", types={"INPUTS": "float32", "SEQ_LEN": "int32"}, gradient=FORBID_GRADIENT)
def CTCGreedyDecoder(xp, INPUTS, SEQ_LEN=None, *, merge_repeated: bool = True):
    """The most probable class of each step without blanks, and (merge_repeated) without repetitions.

    Graves et al., Connectionist Temporal Classification, 2006.  INPUTS [T, N, classes], SEQ_LEN [N], OUTPUT_LEN [N],
    VALUES [sum of OUTPUT_LEN]; float32 probabilities, all others int32.  ValueError where INPUTS has not 3
    dimensions, SEQ_LEN is not [N], or a length is above T.
    """
    found = []
    for b, steps in enumerate(_lengths(INPUTS, SEQ_LEN)):
        best = INPUTS[:steps, b].argmax(axis=1) if steps else np.zeros(0, np.int64)
        keep = best != 0
        if merge_repeated:
            keep[1:] &= best[1:] != best[:-1]
        found.append(best[keep].astype(np.int32))
    return np.array([len(f) for f in found], np.int32), np.concatenate([np.zeros(0, np.int32), *found])


_PREFIX_BYTES = 512  # that one prefix takes, about


def _candidates(rows, beam_width, threshold):
    """{labels: probability} after the last step: a search by prefixes that keeps `beam_width` of them at each step.

    The two numbers of a prefix are the probabilities of the paths to it that end with a blank, and with its last label.
    """
    before = {(): (1.0, 0.0)}
    beam = [()]
    total: dict[tuple[int, ...], float] = {(): 0.0}
    for row in rows:
        likely = np.flatnonzero(row > threshold).tolist() or range(len(row))
        p = row.tolist()
        check_result((len(beam) * len(likely), _PREFIX_BYTES), "uint8")
        now: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        kept = set(beam)
        for labels in beam:
            blank, label = before.get(labels, (0.0, 0.0))
            for c in likely:
                if c == 0:
                    now[labels][0] += p[0] * (blank + label)
                    continue
                longer = (*labels, c)
                if labels and labels[-1] == c:
                    now[longer][1] += p[c] * blank
                    now[labels][1] += p[c] * label
                else:
                    now[longer][1] += p[c] * (blank + label)
                if longer not in kept and longer in before:
                    was_blank, was_label = before[longer]
                    now[longer][0] += p[0] * (was_blank + was_label)
                    now[longer][1] += p[c] * was_label
        total = {labels: sum(pair) for labels, pair in now.items()}
        beam = _best(total, beam_width)
        before = {labels: tuple(pair) for labels, pair in now.items()}
    return total


def _best(total, count):
    return heapq.nsmallest(min(count, len(total)), total, key=lambda labels: (-total[labels], labels))


@operator(
    "OUTPUT_LEN VALUES OUTPUT_PROB",
    types={"INPUTS": "float32", "SEQ_LEN": "int32"},
    num_outputs=(2, 3),
    gradient=FORBID_GRADIENT,
)
def CTCBeamSearchDecoder(
    xp, INPUTS, SEQ_LEN=None, *, beam_width: int = 10, num_candidates: int = 1, prune_threshold: float = 0.001
):
    """The `num_candidates` most probable labellings of each sequence: their lengths, labels and probabilities.

    Hannun et al., First-Pass Large Vocabulary Continuous Speech Recognition, 2014, without a language model.  INPUTS
    [T, N, classes], SEQ_LEN [N], OUTPUT_LEN [N * num_candidates], VALUES [sum of OUTPUT_LEN], OUTPUT_PROB as
    OUTPUT_LEN; float32 probabilities, lengths and labels int32.  ValueError where INPUTS has not 3 dimensions,
    SEQ_LEN is not [N], or a length is above T.
    """
    lengths, values, probabilities = [], [], []
    check_result((max(num_candidates, 0),), "int64")
    if num_candidates < 0:
        raise ValueError(f"num_candidates must not be negative, found {num_candidates}")
    for b, steps in enumerate(_lengths(INPUTS, SEQ_LEN)):
        total = _candidates(INPUTS[:steps, b], beam_width, np.float32(prune_threshold))
        best = _best(total, num_candidates)
        spare = [0] * (num_candidates - len(best))
        lengths += [len(labels) for labels in best] + spare
        values += [c for labels in best for c in labels]
        probabilities += [total[labels] for labels in best] + spare
    return np.array(lengths, np.int32), np.array(values, np.int32), np.array(probabilities, np.float32)
