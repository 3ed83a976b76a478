"""A log of a training run, one line of CSV each."""

from __future__ import annotations

import abc
import datetime
import logging
import time

logger = logging.getLogger(__name__)


class ExternalLogger(abc.ABC):
    """Something else that wants to know the log."""

    @abc.abstractmethod
    def set_runtime_args(self, runtime_args):
        """Arguments of the program."""

    @abc.abstractmethod
    def log(self, log_dict):
        """One line, as {column: value}."""


class ModelTrainerLog:
    """Writes `EXPNAME_TIME.log`: inputs, batches, times and more columns of a training run."""

    def __init__(self, expname, runtime_args, external_loggers=None):
        now = datetime.datetime.fromtimestamp(time.time())
        self.experiment_id = now.strftime("%Y%m%d_%H%M%S")
        self.filename = f"{expname}_{self.experiment_id}.log"
        self.logstr(f"# {runtime_args}")
        self.headers = None
        self.start_time = self.last_time = time.time()
        self.last_input_count = 0
        self.external_loggers = external_loggers if external_loggers is not None else []
        for external in self.external_loggers:
            external.set_runtime_args(runtime_args)

    def logstr(self, str):
        """Append a line, and print it."""
        with open(self.filename, "a") as file:
            file.write(str + "\n")
        logger.info(str)

    def log(self, input_count, batch_count, additional_values):
        """Append the state after `input_count` inputs and `batch_count` batches, with {column: value} more."""
        now = time.time()
        seconds = now - self.last_time
        inputs = input_count - self.last_input_count
        row = {
            "time_spent": seconds,
            "cumulative_time_spent": now - self.start_time,
            "input_count": inputs,
            "cumulative_input_count": input_count,
            "cumulative_batch_count": batch_count,
            "inputs_per_sec": inputs / seconds if seconds > 0 else 0.0,
            **additional_values,
        }
        for external in self.external_loggers:
            external.log(row)
        if self.headers is None:
            self.headers = list(row)
            self.logstr(",".join(self.headers))
        unknown = [column for column in row if column not in self.headers]
        if unknown:
            raise AssertionError(f"columns {unknown} were not in the first line of the log: {self.headers}")
        self.logstr(",".join(str(row.get(column, "")) for column in self.headers))
        self.last_time, self.last_input_count = now, input_count
