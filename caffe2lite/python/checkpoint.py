"""Jobs of several epochs, with a checkpoint of the global workspace after each."""

from __future__ import annotations

import logging
import os

from caffe2lite.python import context, core
from caffe2lite.python.net_builder import ops
from caffe2lite.python.task import Node, Task, TaskGroup, TaskOutput, WorkspaceType, final_output

logger = logging.getLogger(__name__)


class Job(context.Managed):
    """What a training consists of: groups of tasks that run before, in each epoch, and after.

    Inside `with Job() as job:` tasks belong to the epoch group. The job ends after an epoch in which a stop condition
    turned true. What the init group leaves in the global workspace of its nodes is what checkpoints save.
    """

    def __init__(
        self,
        init_group=None,
        epoch_group=None,
        download_group=None,
        exit_group=None,
        stop_conditions=None,
        nodes_to_checkpoint=None,
    ):
        self.init_group = init_group or TaskGroup(workspace_type=WorkspaceType.GLOBAL)
        self.epoch_group = epoch_group or TaskGroup()
        self.download_group = download_group or TaskGroup()
        self.exit_group = exit_group or TaskGroup()
        self.stop_conditions = stop_conditions or []
        self._nodes_to_checkpoint = nodes_to_checkpoint

    def nodes_to_checkpoint(self):
        """Return the names of the nodes whose workspaces are saved."""
        return self._nodes_to_checkpoint or self.init_group.used_nodes()

    def compile(self, session_class):
        """Make the groups ready for sessions of this class."""
        self._nodes_to_checkpoint = self.nodes_to_checkpoint()
        for name in ("init_group", "epoch_group", "download_group", "exit_group"):
            setattr(self, name, session_class.compile(getattr(self, name)))

    def __enter__(self):
        super().__enter__()
        self.epoch_group.__enter__()
        return self

    def __exit__(self, *args):
        self.epoch_group.__exit__()
        super().__exit__(*args)

    def add_stop_condition(self, output):
        """End the job after an epoch in which this bool (a blob or TaskOutput) is true."""
        if isinstance(output, core.BlobReference):
            output = Task(outputs=[output], group=self.epoch_group).outputs()[0]
        if not isinstance(output, TaskOutput):
            raise AssertionError(f"a stop condition is a blob or TaskOutput, got {output!r}")
        self.stop_conditions.append(output)


def get_ckpt_filename(node_name, epoch):
    """File name of a node's checkpoint."""
    return f"{node_name}.{epoch}"


def db_name(epoch, node_name, db_prefix, path_prefix=None):
    """Return the path of a node's checkpoint: in folder `db_prefix`, or `path_prefix` followed by the file name."""
    filename = get_ckpt_filename(node_name, epoch)
    return path_prefix + filename if path_prefix else os.path.join(db_prefix, filename)


class _ManagerBase:
    """What both managers do: ask the metadata handler, where there is one."""

    def __init__(self, db_prefix, db_type, metadata_handler):
        self._db_prefix = db_prefix
        self._db_type = db_type
        self._metadata_handler = metadata_handler
        self._path_prefix = None
        self._path_type = None

    def report_checkpoint_stats(self, action_name):
        """Tell the metadata handler how long the last action took, per file."""
        stats = {}
        self.collect_checkpoint_stats(stats)
        if self._metadata_handler:
            self._metadata_handler.report(action_name, stats)

    def write_checkpoint_metadata(self, epoch):
        """Tell the metadata handler that an epoch was saved."""
        if self._metadata_handler is not None:
            self._metadata_handler.write(epoch=epoch)

    def get_resume_from_epoch_id(self, user_epoch=None):
        """Return the epoch to resume from: `user_epoch`, unless the metadata handler knows better."""
        if self._metadata_handler is None:
            return user_epoch
        return self._metadata_handler.last_epoch(user_epoch=user_epoch)

    def _set_params(self, node_names, path_prefix, path_type):
        self._path_prefix = path_prefix or self._path_prefix
        self._path_type = path_type or self._path_type
        if self._metadata_handler:
            self._metadata_handler.set_params(
                db_prefix=self._db_prefix,
                db_type=self._db_type,
                node_names=node_names,
                path_prefix=self._path_prefix,
                path_type=self._path_type,
            )

    def cp_accessible(self, epoch=None):
        """Return whether the checkpoint of an epoch (None: the folder) can be reached, as far as the handler knows."""
        if self._metadata_handler is None:
            return True
        return self._metadata_handler.cp_accessible(epoch=epoch)


class CheckpointManager(_ManagerBase):
    """Tasks that save and load the global workspace of one node."""

    BLOB_NAMES = "blob_names"

    def __init__(self, db_prefix, node_name, db_type, metadata_handler=None):
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_name = node_name
        self._net = core.Net("!!checkpoint_mngr")  # so that the list of names sorts first in the file
        self._blob_names = self._net.AddExternalInput(self.BLOB_NAMES)
        self._names_output = None
        self._current_db_name = None
        self._current_checkpoint_duration = None

    def init(self, nodes=None, retrieve_from_epoch=None, path_prefix=None, path_type=None):
        """Return the task that finds out which blobs to save: those there are, or those of an earlier checkpoint."""
        if nodes is not None and len(nodes) != 1:
            raise AssertionError(f"CheckpointManager saves one node, got {nodes}: use MultiNodeCheckpointManager")
        with Task(outputs=[self._blob_names]) as task:
            if retrieve_from_epoch is None:
                ops.GetAllBlobNames([], self._blob_names, include_shared=False)
            else:
                source = db_name(retrieve_from_epoch, self._node_name, self._db_prefix, path_prefix)
                logger.info("Names of the blobs to save come from %s", source)
                ops.Load(
                    [],
                    self._blob_names,
                    db=source,
                    db_type=path_type or self._db_type,
                    absolute_path=True,
                    keep_device=True,
                )
        self._names_output = task.outputs()[0]
        return task

    def blob_list(self):
        """Return the names of the blobs to save, once the init task ran."""
        if not self._names_output:
            raise AssertionError("init must be called, and its task run, first")
        return self._names_output.fetch().tolist()

    def _timed_task(self, cp_op_name, add_op):
        with Task(name=cp_op_name) as task:
            with ops.task_init():
                timer = ops.TimerBegin([], counter_name=self._node_name)
            add_op()
            with ops.task_exit():
                duration = ops.TimerGetAndEnd(timer)
            self._current_checkpoint_duration = final_output(duration)
        return task

    def collect_checkpoint_stats(self, stats):
        """Add {file: nanoseconds} of the last action to `stats`."""
        if self._current_db_name and self._current_checkpoint_duration:
            stats[self._current_db_name] = self._current_checkpoint_duration.fetch()[0]
        else:
            logger.info("Failed to collect checkpoint stats: %s", self._current_db_name)

    def load(self, epoch, path_prefix=None, path_type=None):
        """Return the task that loads the blobs as they were after an epoch."""
        self._current_db_name = db_name(epoch, self._node_name, self._db_prefix, path_prefix)
        logger.info("Loading checkpoint %s", self._current_db_name)

        def add_op():
            ops.Load(
                [],
                self.blob_list(),
                db=self._current_db_name,
                db_type=path_type or self._db_type,
                absolute_path=True,
            )

        return self._timed_task("checkpoint_load", add_op)

    def load_blobs_from_checkpoint(self, blob_names, epoch):
        """Return the task that loads those of the named blobs that the checkpoint has."""
        self._current_db_name = db_name(epoch, self._node_name, self._db_prefix)
        logger.info("Load from %s", self._current_db_name)

        def add_op():
            ops.Load(
                [],
                blob_names,
                db=self._current_db_name,
                db_type=self._db_type,
                absolute_path=True,
                allow_incomplete=True,
            )

        return self._timed_task("checkpoint_partial_load", add_op)

    def check_db_exists(self, epoch):
        """Return the task whose output says whether there is a checkpoint of an epoch."""
        with Task() as task:
            existence = ops.Const(False)
            ops.DBExists(
                [],
                [existence],
                db_name=db_name(epoch, self._node_name, self._db_prefix),
                db_type=self._db_type,
                absolute_path=True,
            )
            task.add_output(existence)
        return task

    def save(self, epoch):
        """Return the task that saves the blobs."""
        self._current_db_name = db_name(epoch, self._node_name, self._db_prefix)
        logger.info("Saving to %s", self._current_db_name)

        def add_op():
            ops.Save(self.blob_list(), [], db=self._current_db_name, db_type=self._db_type, absolute_path=True)

        return self._timed_task("checkpoint_save", add_op)

    def set_params(self, nodes, path_prefix=None, path_type=None):
        """Say where it runs and where files are; passed on to the metadata handler."""
        self._set_params([str(self._node_name)], path_prefix, path_type)


class MultiNodeCheckpointManager(_ManagerBase):
    """A CheckpointManager for each node, side by side."""

    def __init__(self, db_prefix, db_type, metadata_handler=None):
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_managers = None

    def _task_group(self, func, *args, **kw):
        if self._node_managers is None:
            raise AssertionError("MultiNodeCheckpointManager.init comes first: it says which nodes there are")
        with TaskGroup(WorkspaceType.GLOBAL) as task_group:
            for node, manager in self._node_managers:
                with Node(node):
                    func(manager, *args, **kw)
        return task_group

    def _set_nodes(self, nodes):
        if self._node_managers is not None:
            known = [node for node, _ in self._node_managers]
            if known != nodes:
                raise AssertionError(f"the nodes are {known} already, got {nodes}")
            return
        self._node_managers = []
        for node in nodes:
            with Node(node):
                manager = CheckpointManager(self._db_prefix, str(node), self._db_type)
                self._node_managers.append((node, manager))

    def init(self, nodes, retrieve_from_epoch=None, path_prefix=None, path_type=None):
        """Return the tasks that find out which blobs to save."""
        self._set_nodes(nodes)
        return self._task_group(
            CheckpointManager.init,
            nodes=None,
            retrieve_from_epoch=retrieve_from_epoch,
            path_prefix=path_prefix,
            path_type=path_type,
        )

    def load(self, epoch, path_prefix=None, path_type=None):
        """Return the tasks that load the blobs as they were after an epoch."""
        return self._task_group(CheckpointManager.load, epoch, path_prefix=path_prefix, path_type=path_type)

    def load_blobs_locally(self, nodes, blob_names, epoch, session):
        """Load the named blobs of all nodes here; False where a node has no checkpoint of that epoch."""
        self._set_nodes(nodes)
        for _, manager in self._node_managers:
            existence = manager.check_db_exists(epoch)
            session.run(existence)
            if not existence.outputs()[0].fetch():
                logger.info("There is no checkpoint %s", db_name(epoch, manager._node_name, manager._db_prefix))
                return False
            session.run(manager.load_blobs_from_checkpoint(blob_names, epoch))
        logger.info("Loaded from the checkpoints of all nodes")
        return True

    def get_ckpt_db_name(self, node_name, epoch):
        """Return the path of a node's checkpoint; None for an unknown node."""
        for node, manager in self._node_managers:
            if str(node) == node_name:
                return db_name(epoch, manager._node_name, manager._db_prefix)
        return None

    def collect_checkpoint_stats(self, stats):
        """Add {file: nanoseconds} of the last action of each node to `stats`."""
        for _, manager in self._node_managers:
            manager.collect_checkpoint_stats(stats)

    def save(self, epoch):
        """Return the tasks that save the blobs."""
        return self._task_group(CheckpointManager.save, epoch)

    def set_params(self, nodes, path_prefix=None, path_type=None):
        """Say where it runs and where files are; passed on to the metadata handler."""
        self._node_names = [str(node) for node in nodes]
        self._set_params(self._node_names, path_prefix, path_type)


class UploadTaskGroupBuilder:
    """Says how to upload the last checkpoint."""

    def build(self, epoch, checkpoint_manager):
        """The TaskGroup that uploads the checkpoint of `epoch`."""
        raise NotImplementedError


class JobRunner:
    """Runs a Job, saving a checkpoint before the first epoch and after each, or resuming from one."""

    def __init__(self, job, checkpoint_manager=None, resume_from_epoch=None, upload_task_group_builder=None):
        self.resume_from_epoch = resume_from_epoch
        self.checkpoint_manager = checkpoint_manager
        self.job = job
        self.upload_task_group_builder = upload_task_group_builder

    def train(self, session):
        """Run to the end; return the number of the last epoch."""
        manager = self.checkpoint_manager
        if manager:
            manager.set_params(nodes=self.job.nodes_to_checkpoint())
            self.resume_from_epoch = manager.get_resume_from_epoch_id(self.resume_from_epoch)
        from_scratch = self.resume_from_epoch is None
        if from_scratch:
            session.run(self.job.init_group)
        if manager:
            session.run(manager.init(self.job.nodes_to_checkpoint(), retrieve_from_epoch=self.resume_from_epoch))
            if from_scratch:
                self.save_checkpoints(0, session)
            else:
                logger.info("Loading checkpoints for epoch %d ...", self.resume_from_epoch)
                session.run(manager.load(self.resume_from_epoch))
                manager.report_checkpoint_stats("checkpoint_load")

        epoch = 1 if from_scratch else self.resume_from_epoch + 1
        while True:
            logger.info("Starting epoch %d", epoch)
            session.run(self.job.epoch_group)
            # All are fetched before the checkpoint is saved, which may change them.
            stop = any([output.fetch() for output in self.job.stop_conditions])  # noqa: C419
            if manager:
                self.save_checkpoints(epoch, session)
            if stop:
                break
            epoch += 1

        if self.upload_task_group_builder:
            session.run(self.upload_task_group_builder.build(epoch, manager))
        session.run(self.job.download_group)
        session.run(self.job.exit_group)
        logger.info("Finished training after epoch %d", epoch)
        return epoch

    def load_blobs_from_checkpoints(self, blob_names, epoch, session):
        """Load the named blobs of all nodes from their checkpoints; whether all of these exist."""
        if not self.checkpoint_manager:
            raise Exception("this JobRunner has no checkpoint_manager to load from")
        result = self.checkpoint_manager.load_blobs_locally(self.job.nodes_to_checkpoint(), blob_names, epoch, session)
        self.checkpoint_manager.report_checkpoint_stats("checkpoint_partial_load")
        return result

    def save_checkpoints(self, epoch, session):
        """Save a checkpoint; a failure is logged, the job goes on."""
        try:
            if not self.checkpoint_manager.cp_accessible(epoch=None):
                logger.warning("The checkpoint files cannot be reached")
                return
            session.run(self.checkpoint_manager.save(epoch))
            self.checkpoint_manager.write_checkpoint_metadata(epoch)
            self.checkpoint_manager.report_checkpoint_stats("checkpoint_save")
        except Exception as ex:
            logger.warning("Unable to write checkpoint for epoch %d. Error=%s", epoch, ex)


def epoch_limiter(job, num_epochs):
    """End the job after `num_epochs` epochs."""
    with job.init_group:
        init_net = core.Net("epoch_counter_init")
        counter = init_net.CreateCounter([], init_count=num_epochs - 1)
        Task(step=init_net)
    with job.epoch_group:
        epoch_net = core.Net("epoch_countdown")
        finished = epoch_net.CountDown(counter)
        output = Task(step=epoch_net, outputs=finished).outputs()[0]
    job.add_stop_condition(output)
