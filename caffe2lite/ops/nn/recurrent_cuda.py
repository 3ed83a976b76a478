"""The units of recurrent nets on GPUs: one launch for a time step, forwards or backwards."""

from __future__ import annotations

from caffe2lite.ops.kit.cuda_kernels import Kernel

# A thread has one unit of one sequence; past its end a sequence keeps its state, or loses it.
_UNIT = """
    int64 unit = i % units, sequence = i / units;
    bool runs = !lengths || lengths[sequence] > now;
    const T* gates = x + sequence * units * GATES + unit;
"""
_STEP = "const int* lengths, int now, int64 units, bool drop"
_LSTM = (
    _UNIT.replace("GATES", "4")
    + """
    T in = 1 / (1 + exp(-gates[0])), keep = 1 / (1 + exp(-(gates[units] + forget_bias)));
    T show = 1 / (1 + exp(-gates[2 * units])), fresh = tanh(gates[3 * units]);
"""
)
_GRU = (
    _UNIT.replace("GATES", "3")
    + """
    T keep = 1 / (1 + exp(-gates[units])), fresh = tanh(gates[2 * units]);
"""
)

LSTM = Kernel(
    "lstm_unit",
    f"T* h, T* c, const T* h_prev, const T* c_prev, const T* x, float forget_bias, {_STEP}",
    _LSTM
    + """
    T cell = keep * c_prev[i] + in * fresh;
    T state = show * tanh(cell);
    h[i] = runs ? state : drop ? (T)0 : h_prev[i];
    c[i] = runs ? cell : drop ? (T)0 : c_prev[i];
    """,
)

LSTM_GRADIENT = Kernel(
    "lstm_unit_gradient",
    "T* dh_prev, T* dc_prev, T* dx, const T* c_prev, const T* x, const T* c, const T* dh, const T* dc, float forget_bias, "
    + _STEP,
    _LSTM
    + """
    T seen = tanh(c[i]), cell = dc[i] + dh[i] * show * (1 - seen * seen);
    T* gradients = dx + sequence * units * 4 + unit;
    gradients[0] = runs ? cell * fresh * in * (1 - in) : (T)0;
    gradients[units] = runs ? cell * c_prev[i] * keep * (1 - keep) : (T)0;
    gradients[2 * units] = runs ? dh[i] * seen * show * (1 - show) : (T)0;
    gradients[3 * units] = runs ? cell * in * (1 - fresh * fresh) : (T)0;
    T past = drop ? 0 : 1;
    dh_prev[i] = runs ? (T)0 : past * dh[i];
    dc_prev[i] = runs ? cell * keep : past * dc[i];
    """,
)

GRU = Kernel(
    "gru_unit",
    f"T* h, const T* h_prev, const T* x, {_STEP}",
    _GRU
    + """
    h[i] = runs ? fresh + keep * (h_prev[i] - fresh) : drop ? (T)0 : h_prev[i];
    """,
)

GRU_GRADIENT = Kernel(
    "gru_unit_gradient",
    f"T* dh_prev, T* dx, const T* h_prev, const T* x, const T* dh, {_STEP}",
    _GRU
    + """
    T* gradients = dx + sequence * units * 3 + unit;
    gradients[0] = 0;
    gradients[units] = runs ? dh[i] * (h_prev[i] - fresh) * keep * (1 - keep) : (T)0;
    gradients[2 * units] = runs ? dh[i] * (1 - keep) * (1 - fresh * fresh) : (T)0;
    T past = drop ? 0 : 1;
    dh_prev[i] = runs ? dh[i] * keep : past * dh[i];
    """,
)
