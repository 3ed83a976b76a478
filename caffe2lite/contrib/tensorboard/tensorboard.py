"""Commands that write what TensorBoard shows: graphs of nets, and statistics of blobs.

python -m caffe2.contrib.tensorboard.tensorboard tensorboard-graphs --c2-netdef net.pbtxt --tf-dir out
python -m caffe2.contrib.tensorboard.tensorboard tensorboard-events --c2-dir summaries --tf-dir out
"""

from __future__ import annotations

import logging
import math
import os

import click
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from caffe2lite.contrib.tensorboard import tensorboard_exporter as tb_exporter
from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.text import parse
from caffe2lite.python import core

log = logging.getLogger(__name__)


@click.group()
def cli():
    """What TensorBoard shows of Caffe2's nets and blobs."""


def write_events(tf_dir, events):
    """Write Event messages into a new file of the folder."""
    writer = EventFileWriter(tf_dir, max_queue_size=len(events) + 1)
    for event in events:
        writer.add_event(event)
    writer.close()


def graph_def_to_event(step, graph_def):
    """Return the Event of a graph, at a step."""
    return event_pb2.Event(wall_time=step, step=step, graph_def=graph_def.SerializeToString())


@cli.command("tensorboard-graphs")
@click.option("--c2-netdef", type=click.Path(exists=True, dir_okay=False), multiple=True)
@click.option("--tf-dir", type=click.Path(exists=True))
def tensorboard_graphs(c2_netdef, tf_dir):
    """Write each net (text) as a graph, at steps 1, 2 and so on."""
    events = []
    for i, path in enumerate(c2_netdef, start=1):
        with open(path) as f:
            net = core.Net(parse(f.read(), caffe2_pb2.NetDef()))
        events.append(graph_def_to_event(i, tb_exporter.nets_to_graph_def([net])))
    write_events(tf_dir, events)
    log.info("Wrote %d graphs to %s", len(events), tf_dir)


@cli.command("tensorboard-events")
@click.option(
    "--c2-dir", type=click.Path(exists=True, file_okay=False), help="Folder of files with statistics, one a blob."
)
@click.option("--tf-dir", type=click.Path(exists=True))
def tensorboard_events(c2_dir, tf_dir):
    """Write summaries of blobs: files of lines `min max mean std`, as the operator Summarize makes them."""
    rows = {}
    for name in sorted(os.listdir(c2_dir)):
        with open(os.path.join(c2_dir, name)) as f:
            try:
                rows[name] = [[float(v) for v in line.split()] for line in f]
                if any(len(row) != 4 for row in rows[name]):
                    raise ValueError("a line has not four numbers")
            except (ValueError, UnicodeDecodeError) as e:
                rows.pop(name, None)
                log.info("%s is left out: %s", name, e)
    steps = max(map(len, rows.values()), default=0)
    events = []
    for step in range(1, steps + 1):
        values = [
            summary_pb2.Summary.Value(tag=name, histo=_histogram(*lines[step - 1]))
            for name, lines in rows.items()
            if step <= len(lines)
        ]
        events.append(event_pb2.Event(wall_time=step, step=step, summary=summary_pb2.Summary(value=values)))
    write_events(tf_dir, events)
    log.info("Wrote %d events to %s", len(events), tf_dir)


def _histogram(low, high, mean, std):
    """Return a HistogramProto of a normal distribution cut at its smallest and largest value, as of 1,000 numbers."""
    count, bins = 1000, 30
    width = (high - low) / bins or 1.0

    def below(x):
        return 0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2)))) if std > 0 else float(x >= mean)

    limits = [low + width * (i + 1) for i in range(bins)]
    shares = [below(limit) - below(limit - width) for limit in limits]
    total = sum(shares) or 1.0
    return summary_pb2.HistogramProto(
        min=low,
        max=high,
        num=count,
        sum=mean * count,
        sum_squares=(std * std + mean * mean) * count,
        bucket_limit=limits,
        bucket=[count * share / total for share in shares],
    )


if __name__ == "__main__":
    cli()
