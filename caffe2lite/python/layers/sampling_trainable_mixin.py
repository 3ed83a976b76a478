"""Layers that can train on a sample of their outputs."""

from __future__ import annotations

import abc


class SamplingTrainableMixin(abc.ABC):
    """param_blobs are the parameters; in training, train_param_blobs take their place."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._train_param_blobs = None

    @property
    @abc.abstractmethod
    def param_blobs(self):
        """The parameters whose rows belong to outputs."""

    @property
    def train_param_blobs(self):
        """What to train on: param_blobs if nothing was set."""
        return self.param_blobs if self._train_param_blobs is None else self._train_param_blobs

    @train_param_blobs.setter
    def train_param_blobs(self, blobs):
        self._train_param_blobs = blobs

    @abc.abstractmethod
    def _add_ops(self, net, param_blobs):
        """Add the operators with these parameters."""

    def add_ops(self, net):
        """Add the operators of prediction, with the parameters of prediction."""
        self._add_ops(net, self.param_blobs)

    def add_train_ops(self, net):
        """Add the operators of training, with the parameters of training."""
        self._add_ops(net, self.train_param_blobs)
