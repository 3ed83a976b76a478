"""A TestCase that compares outputs."""

from __future__ import annotations

import unittest

import numpy as np


class TestCase(unittest.TestCase):
    """Seeded, with `assertSameOutputs`."""

    def setUp(self):
        np.random.seed(seed=0)

    def assertSameOutputs(self, outputs1, outputs2, decimal=7):
        """Two lists of arrays agree in number, shape and type, and to `decimal` places."""
        self.assertEqual(len(outputs1), len(outputs2))
        for one, other in zip(outputs1, outputs2):
            self.assertEqual(one.dtype, other.dtype)
            np.testing.assert_almost_equal(one, other, decimal=decimal)
