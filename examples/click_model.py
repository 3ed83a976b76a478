"""Will this visitor click?  A sparse logistic model, built of layers, on visits that are made up.

    python click_model.py --steps 400

A visit has some numbers (dense) and the pages that were seen (sparse: a list of ids, of any length).
"""

import argparse

import numpy as np
from caffe2.python import layer_model_helper, layer_model_instantiator, optimizer, schema, workspace

PAGES = 50
NUMBERS = 4


def visits(count, rng):
    """(dense, lengths, pages, clicked) of made-up visits: some pages and numbers make a click likely."""
    taste = np.random.RandomState(7).randn(PAGES + NUMBERS)
    dense = rng.randn(count, NUMBERS).astype(np.float32)
    lengths = rng.randint(1, 6, count).astype(np.int32)
    pages = rng.randint(0, PAGES, lengths.sum()).astype(np.int64)
    liking = np.add.reduceat(taste[pages], np.cumsum(lengths) - lengths) + dense @ taste[PAGES:]
    clicked = (rng.rand(count) < 1 / (1 + np.exp(-2 * liking))).astype(np.float32)
    return dense, lengths, pages, clicked


def build():
    """The model: embeddings of pages, summed up, beside the numbers; two layers; the loss of a logistic regression."""
    page = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=PAGES))
    features = schema.Struct(("float_features", schema.Scalar((np.float32, (NUMBERS,)))), ("pages", schema.List(page)))
    extra = schema.Struct(("label", schema.Scalar((np.float32, (1,)))))
    model = layer_model_helper.LayerModelHelper("clicks", features, extra)
    model.default_optimizer = optimizer.AdagradOptimizer(alpha=0.1, epsilon=1e-4)
    seen = model.SparseLookup(model.input_feature_schema.pages, [8], "Sum")
    both = model.Concat(schema.Struct(("seen", seen), ("numbers", model.input_feature_schema.float_features)), axis=1)
    hidden = model.Relu(model.FC(both, 16), 1)
    logit = model.FC(hidden, 1)
    loss = model.BatchLRLoss(
        schema.Struct(
            ("label", model.trainer_extra_schema.label), ("logit", logit), ("prediction", model.Sigmoid(logit, 1))
        )
    )
    model.add_loss(loss)
    model.output_schema = schema.Struct(("logit", logit))
    return model, loss


def feed(model, batch):
    """Put visits where the model reads them."""
    dense, lengths, pages, clicked = batch
    fields = model.input_feature_schema
    for blob, value in (
        (fields.float_features(), dense),
        (fields.pages.lengths(), lengths),
        (fields.pages.items(), pages),
        (model.trainer_extra_schema.label(), clicked),
    ):
        workspace.FeedBlob(str(blob), value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    rng = np.random.RandomState(0)
    model, loss = build()
    feed(model, visits(128, rng))
    init_net, train_net = layer_model_instantiator.generate_training_nets(model)
    eval_net = layer_model_instantiator.generate_eval_net(model)
    workspace.RunNetOnce(init_net)
    workspace.CreateNet(train_net)
    workspace.CreateNet(eval_net)
    for step in range(1, args.steps + 1):
        feed(model, visits(128, rng))
        workspace.RunNet(train_net)
        if step % 100 == 0:
            print(f"step {step}: loss {float(workspace.FetchBlob(str(loss()))):.3f}")
    test = visits(2000, rng)
    feed(model, test)
    workspace.RunNet(eval_net)
    guess = workspace.FetchBlob(str(model.output_schema.logit()))[:, 0] > 0
    print(f"{(guess == test[3]).mean():.1%} of 2,000 new visits foretold")


if __name__ == "__main__":
    main()
