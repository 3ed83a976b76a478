"""What `sweep.py` times: families of operators at sizes at which the work, not the call, takes the time.

A line is `Operator(argument=value, …) inputs [> outputs] [@ output, …]`.  An input is a shape with a letter for its values:

    f  floats around 0       p  positive floats        h  float16          b  bool
    iN int32 below N         lN int64 below N          cN int32, all N     sN sorted int32 ids below N
    uN int32 or int64 (iN, lN) that are all different  r  boxes            t  strings

`@` adds the gradient operator, driven by these outputs.  `BEFORE | …` runs another operator first, whose result comes as `_`.
"""

FAMILIES = {
    "Activations": """
        Relu 32x64x56x56f @ 0
        LeakyRelu 32x64x56x56f @ 0
        HardSigmoid 16x64x56x56f @ 0
        Sigmoid 16x64x56x56f @ 0
        Tanh 16x64x56x56f @ 0
        Elu 16x64x56x56f @ 0
        Selu 16x64x56x56f @ 0
        Swish 16x64x56x56f @ 0
        Softplus 16x64x56x56f @ 0
        Softsign 16x64x56x56f @ 0
        Gelu 4x64x56x56f @ 0
        PRelu 16x64x56x56f 64f @ 0
        Clip(min=-0.2, max=0.3) 16x64x56x56f @ 0
    """,
    "Functions of one tensor": """
        Exp 16x64x56x56f @ 0
        Log 16x64x56x56p @ 0
        Sqr 16x64x56x56f @ 0
        Cube 16x64x56x56f @ 0
        Rsqrt 16x64x56x56p @ 0
        Erf 16x64x56x56f @ 0
        Sign 16x64x56x56f
        Abs 16x64x56x56f @ 0
        FloatToHalf 32x64x56x56f
        HalfToFloat 32x64x56x56h
        ReplaceNaN 32x64x56x56f
    """,
    "Two and more tensors": """
        Add(broadcast=1, axis=1) 16x64x56x56f 64f @ 0
        Mul 16x64x56x56f 16x64x56x56f @ 0
        Div 16x64x56x56f 16x64x56x56p @ 0
        Max 16x64x56x56f 16x64x56x56f 16x64x56x56f @ 0
        Min 16x64x56x56f 16x64x56x56f @ 0
        Sum 16x64x56x56f 16x64x56x56f 16x64x56x56f
        Mean 16x64x56x56f 16x64x56x56f @ 0
        WeightedSum 16x64x56x56f 1f 16x64x56x56f 1f
    """,
    "Matrices and convolutions": """
        FC 256x1024f 1024x1024f 1024f @ 0
        MatMul 512x512f 512x512f @ 0
        BatchMatMul 96x64x64f 96x64x64f @ 0
        Conv(kernel=3, pad=1) 4x64x56x56f 64x64x3x3f 64f @ 0
        Conv(kernel=1) 4x256x28x28f 64x256x1x1f 64f @ 0
        Conv(kernel=3, pad=1, group=128) 4x128x28x28f 128x1x3x3f 128f @ 0
        MaxPool(kernel=3, stride=2, pad=1) 8x64x56x56f @ 0
        AveragePool(kernel=3, stride=2, pad=1) 8x64x56x56f @ 0
        AveragePool(global_pooling=1) 64x512x14x14f @ 0
        MaxPool(global_pooling=1) 64x512x14x14f @ 0
    """,
    "Normalization": """
        LayerNorm 4096x768f > 3 @ 0
        GroupNorm(group=8) 8x64x56x56f 64f 64f > 3 @ 0
        InstanceNorm 8x64x56x56f 64f 64f > 3 @ 0
        RMSNorm 4096x768f 768f 768f > 2 @ 0
        BatchMoments 8x64x56x56f > 2
        ChannelStats 8x64x56x56f > 2
    """,
    "Losses and distances": """
        Softmax 2048x1000f @ 0
        Softmax 65536x10f @ 0
        SoftmaxWithLoss 2048x1000f 2048i1000 > 2 @ 1
        LabelCrossEntropy 262144x10p 262144i10 @ 0
        DotProduct 65536x64f 65536x64f @ 0
        CosineSimilarity 65536x64f 65536x64f @ 0
        SquaredL2Distance 65536x64f 65536x64f @ 0
        AveragedLoss 4000000f @ 0
        Accuracy(top_k=5) 8192x1000f 8192i1000
    """,
    "Reductions": """
        ReduceSum(axes=[2, 3], keepdims=0) 32x64x56x56f
        ReduceMax(axes=[3], keepdims=0) 32x64x56x56f
        ReduceMean(axes=[1], keepdims=0) 8x64x56x56f @ 0
        ReduceL1(axes=[2, 3], keepdims=0) 8x64x56x56f
        TopK(k=10) 256x10000f > 2 @ 0
        ArgMax(axis=1) 256x10000f
    """,
    "Lookups": """
        SparseLengthsSum 100000x64f 163840l100000 4096c40 @ 0
        SparseLengthsMean 100000x64f 163840l100000 4096c40 @ 0
        SparseLengthsWeightedSum 100000x64f 163840f 163840l100000 4096c40 @ 0
        SparseLengthsSum 100000x64h 163840l100000 4096c40
        FloatToFused8BitRowwiseQuantized 100000x64f | SparseLengthsSumFused8BitRowwise _ 163840l100000 4096c40
        FloatToFused4BitRowwiseQuantized 100000x64f | SparseLengthsSumFused4BitRowwise _ 163840l100000 4096c40
        FloatToFused8BitRowwiseQuantized 40000x64f
        FloatToFused8BitRowwiseQuantized 40000x64f | Fused8BitRowwiseQuantizedToFloat _
        Gather 100000x64f 163840l100000
        BatchGather 64x500x32f 1000i500 @ 0
    """,
    "Segments and sequences": """
        LengthsSum 163840x64f 4096c40 @ 0
        LengthsMax 163840x64f 4096c40 @ 0
        SortedSegmentMean 163840x64f 163840s4096 @ 0
        UnsortedSegmentSum(num_segments=4096) 163840x64f 163840i4096 @ 0
        LengthsTopK(k=5) 1000000f 25000c40 > 2
        LengthsToRanges 1000000i5
        LengthsRangeFill 200000i5
        LengthsTile 50000x64f 50000i5 @ 0
        PackSegments 4000c40 160000x32f @ 0
        UnpackSegments 4000c40 4000x40x32f @ 0
        AddPadding(padding_width=1) 160000x32f 8000c20 > 2
        RemovePadding(padding_width=1) 160000x32f 8000c20 > 2
        SequenceMask(mode='upper', fill_val=-1e9) 64x128x128f
    """,
    "Rows and indices": """
        BooleanMask 100000x64f 100000b > 2
        ScatterAssign 100000x64f 20000u100000 20000x64f
        SparseToDense 20000u50000 20000x32f
        OneHot 50000l200 1c200
        BatchPermutation 4000x1024f 4000u4000 @ 0
        Unique 100000l30000 > 2
        Conditional 65536b 65536x64f 65536x64f
    """,
    "Layout and images": """
        Transpose(axes=[0, 2, 1, 3]) 32x128x12x64f
        NCHW2NHWC 16x64x56x56f
        Concat(axis=1) 16x64x56x56f 16x64x56x56f > 2
        Split(axis=1) 16x192x56x56f > 3
        Slice(starts=[0, 16, 0, 0], ends=[-1, 48, -1, -1]) 32x64x56x56f @ 0
        Tile(tiles=8, axis=0) 2000x256f @ 0
        ResizeNearest(width_scale=2.0, height_scale=2.0) 4x64x28x28f @ 0
        PadImage(pad=2, mode='reflect') 8x64x56x56f @ 0
        UpsampleBilinear(width_scale=2.0, height_scale=2.0) 4x32x28x28f @ 0
    """,
    "Quantized": """
        Int8Quantize(Y_scale=0.004, Y_zero_point=128) 8x56x56x64f
        Int8Quantize(Y_scale=0.004, Y_zero_point=128) 8x56x56x64f | Int8Dequantize _
        Int8Quantize(Y_scale=0.004, Y_zero_point=128) 8x56x56x64f | Int8Relu(Y_scale=0.004, Y_zero_point=128) _
        Int8Quantize(Y_scale=0.004, Y_zero_point=128) 8x56x56x64f | Int8Add(Y_scale=0.008, Y_zero_point=128) _ _
        Int8Quantize(Y_scale=0.004, Y_zero_point=128) 8x56x56x64f | Int8Sigmoid(Y_scale=0.00390625, Y_zero_point=0) _
    """,
    "Strings": """
        StringPrefix(length=5) 50000t
        StringEquals(text='key_17') 100000t
        StringStartsWith(prefix='key_1') 100000t
    """,
}

# Why a case is above the line; a case without an entry is above it for no reason that is known.
_BAGS = (
    "random rows from memory: 42 MB of 256 bytes each, and Numba's loop has fewer of them on their way than FBGEMM's"
)
_HALVES = (
    "random rows of half or a quarter of the bytes: the work for each row shows, where genuine's is written in AVX2"
)
_COPY = "a copy: as many bytes as genuine moves, and NumPy's call"
REASONS = {
    "StringPrefix": "each string is a Python object: 30 ns to make one",
    "StringEquals": "each string is a Python object behind a pointer: 5 ns to compare one",
    "StringStartsWith": "each string is a Python object behind a pointer, compared twice: 15 ns",
    "SparseLengthsSum": _BAGS,
    "SparseLengthsMean": _BAGS,
    "SparseLengthsWeightedSum": _BAGS,
    "SparseLengthsSumFused8BitRowwise": _HALVES,
    "SparseLengthsSumFused4BitRowwise": _HALVES,
    "LengthsSum": "gradient: 42 MB are written, which genuine does past the cache",
    "SortedSegmentMean": "gradient: 42 MB are written, which genuine does past the cache",
    "LengthsTile": "rows of 256 bytes, a loop that begins anew for each; genuine has memcpy",
    "PackSegments": "runs of 5 KB, copied by a loop; genuine has memcpy",
    "UnpackSegments": "runs of 5 KB, copied by a loop; genuine has memcpy",
    "AddPadding": "runs of 2.5 KB, copied by a loop; genuine has memcpy",
    "MaxPool": "gradient: each window is looked at once more, element by element; genuine does so with AVX",
    "Add": "gradient: sums over two groups of axes are two passes in NumPy",
    "DotProduct": "gradient: two products with a column that is repeated, at NumPy's speed for broadcasting",
    "CosineSimilarity": "gradient: each of two results takes four passes over 17 MB in NumPy",
    "PadImage": "gradient: two products with a matrix that is mostly 0, which BLAS takes for a full one",
    "UpsampleBilinear": "two products with a matrix that is mostly 0, which BLAS takes for a full one",
    "Accuracy": "each row is compared with one of its values: 33 MB are read, at 45 GB/s",
    "ReduceMax": "rows of 56 numbers: a call of the inner loop for each",
    "ReduceL1": "6 MB are read once, at 90 GB/s: both are at the speed of the cache",
    "AveragePool": "26 MB are read once, as a product with ones by BLAS",
    "LabelCrossEntropy": "gradient: 10 MB are written, in rows of 40 bytes",
    "SoftmaxWithLoss": "gradient: 8 MB are read and 8 written; both take the time of that",
    "TopK": "gradient: 10 MB are cleared; both take the time of that",
    "AveragedLoss": "gradient: 16 MB are written; both take the time of that",
    "HalfToFloat": _COPY,
    "Relu": _COPY,
    "Sqr": _COPY,
    "ReplaceNaN": _COPY,
    "Concat": _COPY,
    "Split": _COPY,
    "Slice": _COPY,
    "Transpose": _COPY,
    "Tile": _COPY,
    "Int8Relu": "1.6 MB are read and written in 0.14 ms: NumPy's clip",
    "ScatterAssign": "20,000 random rows of 256 bytes: the time is that of memory",
    "OneHot": "40 MB are cleared, in memory that is there already",
    "Mean": "gradient: the same quarter is written four times, 6 MB each",
}
