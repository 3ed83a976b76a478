"""Looking at values."""

import numpy as np
import pytest
from running import check_places, refused, run
from session import Session

X = np.array([[1, np.nan], [np.inf, -2]], "f")
FINE = np.array([[1, 2.5]], "f")


@pytest.mark.parametrize(
    ("x", "line"),
    [
        (FINE, "Tensor x of type float. Dims: (1,2,): 1,2.5"),
        (np.array([3, -4]), "Tensor x of type long int. Dims: (2,): 3,-4"),
        (np.array([b"a", b"b"], object), "Tensor x of type std::basic_string<char>. Dims: (2,): a,b"),
    ],
)
def test_print(x, line, capsys):
    do = Session(x=x)
    do("Print", "x")
    assert capsys.readouterr().err == line + "\n"
    do("Print", "x", limit=1)
    assert capsys.readouterr().err == line.rsplit(",", 1)[0] + "\n"
    refused("Print", [x], r"every_n.* >= 1", {"every_n": 0}, outputs=0)


def test_print_to_a_file(tmp_path):
    do = Session(x=FINE)
    do.workspace.root_folder = str(tmp_path)
    for _ in range(2):  # each a new operator, which starts the file anew
        do("Print", "x", to_file=1)
    assert (tmp_path / "x.log").read_text() == "Tensor x of type float. Dims: (1,2,): 1,2.5\n"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("kind", "outputs"), [("EnforceFinite", 0), ("NanCheck", 1)])
def test_what_is_not_finite_is_named(kind, outputs, bad):
    x = np.array([[1, 2], [bad, 3]], "f")
    refused(kind, [x], rf"blob 'in0' has values that are not finite: {bad} at element 2 of \[2, 2\]", {}, outputs)
    run(kind, [FINE], outputs=outputs)


def test_nan():
    np.testing.assert_array_equal(run("NanCheck", [FINE, X])[0], FINE, strict=True)
    check_places("NanCheck", [FINE])
    for x in (X, X.astype("float64")):
        np.testing.assert_array_equal(run("IsNaN", [x])[0], np.isnan(x).astype("uint8"), strict=True)
        np.testing.assert_array_equal(
            run("ReplaceNaN", [x], {"value": 7.0})[0], np.where(np.isnan(x), 7, x).astype(x.dtype)
        )
    check_places("ReplaceNaN", [X])


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
def test_assert(dtype):
    run("Assert", [np.ones((2, 2), dtype)], outputs=0)
    run("Assert", [np.ones(0, dtype)], outputs=0)
    x = np.array([1, 1, 0], dtype)
    refused("Assert", [x], r"at element 2 of \[3\] values. so there", {"error_msg": "so there"}, outputs=0)
