"""Python functions that run over and over on threads while a net trains.

coordinator = init_workers(my_function, worker_name="train")   # my_function(worker_id)
coordinator.start()
…
coordinator.stop()
"""

from __future__ import annotations

import atexit
import collections
import logging
import threading
import time
from abc import ABCMeta, abstractmethod

log = logging.getLogger("parallel_workers")
log.setLevel(logging.INFO)
LOG_INT_SECS = 60
_JOIN_SECS = 5.0  # a worker that is blocked in its function is left behind after this


def init_workers(
    worker_fun, num_worker_threads=2, worker_name="train", init_fun=None, external_loggers=None, shutdown_fun=None
):
    """Prepare threads that call worker_fun(worker_id) until they are stopped; return the global coordinator.

    init_fun(worker_coordinator, global_coordinator) is called before the threads start, shutdown_fun() when they stop;
    external_loggers get the metrics: objects with log(dict).
    """
    metrics = Metrics(external_loggers)
    worker_ids = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    coordinator = WorkerCoordinator(worker_name, worker_ids, init_fun, shutdown_fun=shutdown_fun)
    coordinator._workers = [
        threading.Thread(
            target=run_worker,
            name=f"parallel_workers worker id {worker_id}",
            args=[coordinator, Worker(coordinator, worker_id, worker_fun, metrics)],
        )
        for worker_id in worker_ids
    ]
    global_coordinator.add(coordinator)
    return global_coordinator


class Metrics:
    """Sums of what workers report, with how often, for external loggers."""

    def __init__(self, external_loggers):
        self._metrics = collections.defaultdict(int)
        self._external_loggers = external_loggers

    def reset_metrics(self):
        """Start from 0."""
        self._metrics.clear()

    def log_metrics(self):
        """Hand the metrics to every external logger; one that fails does not stop the others."""
        for logger in self._external_loggers or ():
            try:
                logger.log(self._metrics)
            except Exception as error:
                print(f"Failed to call ExternalLogger: {error}")

    def put_metric(self, key, value, count=True):
        """Add to a metric, and with `count` one to its KEY_count."""
        self._metrics[key] += value
        if count:
            self._metrics[f"{key}_count"] += 1


class State(metaclass=ABCMeta):
    """What the workers of one coordinator share."""

    @abstractmethod
    def start(self):
        """Called before the workers start."""

    @abstractmethod
    def stop(self):
        """Called when they are told to stop."""

    @abstractmethod
    def cleanup(self):
        """Called when all of them have stopped."""


class WorkerCoordinator:
    """The threads of one name, started and stopped together."""

    def __init__(self, worker_name, worker_ids, init_fun, state=None, shutdown_fun=None):
        self._worker_name, self._worker_ids = worker_name, worker_ids
        self._init_fun, self._shutdown_fun = init_fun, shutdown_fun
        self._state = state
        self._workers = []
        self._active, self._started = True, False

    def is_active(self):
        """Return whether the workers are to go on."""
        return self._active

    def init(self, global_coordinator):
        """Call the initializing function, unless the workers run already."""
        if self._init_fun and not self._started:
            self._init_fun(self, global_coordinator)

    def _start(self):
        if self._started:
            return
        self._active = True
        self._started = True
        if self._state:
            self._state.start()
        for worker in self._workers:
            worker.daemon = True
            worker.start()

    def _stop(self, reason=None):
        self._active = False
        if reason is not None:
            log.error("Data input failed due to an error: %s", reason)
        if self._shutdown_fun and self._started:
            self._shutdown_fun()
        if self._state:
            self._state.stop()
        self._started = False

    def _wait_finish(self, cleanup=None):
        """Wait a while for the threads; True when all have stopped."""
        for worker in self._workers:
            if worker.ident is not None and worker is not threading.current_thread():
                worker.join(_JOIN_SECS)
        blocked = [w.name for w in self._workers if w.is_alive()]
        if blocked:
            log.warning("Workers %s of %s failed to stop", blocked, self._worker_name)
        elif self._state:
            self._state.cleanup()
        return not blocked

    def get_worker_ids(self):
        """Return the numbers of the workers."""
        return self._worker_ids


class GlobalWorkerCoordinator:
    """All coordinators; it stops them when Python exits."""

    def __init__(self):
        self._coordinators = []
        self._fetcher_id_seq = 0
        self._worker_ids = []
        self.register_shutdown_handler()

    def add(self, coordinator):
        """Take a coordinator on."""
        self._coordinators.append(coordinator)

    def get_new_worker_id(self):
        """Return a number that no other worker has."""
        worker_id = self._fetcher_id_seq
        self._worker_ids.append(worker_id)
        self._fetcher_id_seq += 1
        return worker_id

    def get_worker_ids(self):
        """Return the numbers of all workers."""
        return self._worker_ids

    def start(self):
        """Initialize all coordinators, one after the other, then start their threads."""
        for coordinator in self._coordinators:
            coordinator.init(self)
        for coordinator in self._coordinators:
            coordinator._start()

    def stop(self):
        """Stop all and forgets them; True when every thread has stopped."""
        ending, self._coordinators = self._coordinators, []  # forgotten even when one fails to stop
        for coordinator in ending:
            coordinator._stop()
        stopped = [coordinator._wait_finish() for coordinator in ending]
        return all(stopped)

    def stop_coordinator(self, worker_name):
        """Stop the coordinators of that name."""
        for coordinator in self._coordinators:
            if coordinator._worker_name == worker_name:
                coordinator._stop()
                coordinator._wait_finish()
        self._coordinators = [c for c in self._coordinators if c._worker_name != worker_name]

    def register_shutdown_handler(self):
        """Let the threads be stopped when Python exits."""
        atexit.register(self.stop)


class Worker:
    """One thread's work: a function called with the worker's number."""

    def __init__(self, coordinator, worker_id, worker_fun=None, metrics=None):
        self._coordinator = coordinator
        self._worker_id = worker_id
        self._worker_fun = worker_fun
        self._metrics = metrics

    def start(self):
        """Called before each run."""
        self._start_time = time.time()

    def run(self):
        """One call of the function."""
        self._worker_fun(self._worker_id)

    def handle_exception(self, e):
        """Stop all workers of the coordinator."""
        log.error("Exception in worker %s", self._worker_id, exc_info=e)
        self._coordinator._stop(f"Exception in worker {self._worker_id}: {e}")

    def finish(self):
        """Called after each run."""
        self._metrics.put_metric("worker_time", time.time() - self._start_time)
        self._metrics.log_metrics()


global_coordinator = GlobalWorkerCoordinator()


def run_worker(coordinator, worker):
    """What a thread does: runs its worker while the coordinator is active."""
    while coordinator.is_active():
        worker.start()
        try:
            worker.run()
        except Exception as error:
            worker.handle_exception(error)
        finally:
            worker.finish()
