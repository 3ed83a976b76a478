# make demo   from nothing to a trained, checkpointed and resumed model: a private environment, the install, the job
# make test   lint and the test-suite, in the same private environment
# make test-oldest   the same with the oldest NumPy and protobuf that are supported (PYTHON: 3.10 to 3.12)
# make lint   ruff (rules and format) and mypy
# make docs   the documentation as a site with search, in site/
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-oldest lint docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The package is installed as a user installs it, so that the tests see what a user gets.
$(VENV)/.installed: $(BIN)/python pyproject.toml $(shell find caffe2lite compat -name '*.py' -o -name '*.json' -o -name '*.html' -o -name '*.css' -o -name '*.js')
	$(BIN)/pip install --quiet --upgrade '.[test]'
	touch $@

$(VENV)/.linters: $(VENV)/.installed
	$(BIN)/pip install --quiet '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/pytest -q

test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet --upgrade '.[test]' 'numpy==1.26.*' 'protobuf==4.25.*'
	$(VENV)-oldest/bin/pytest -q

lint: $(VENV)/.linters
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.linters
	$(BIN)/python tools/build_docs.py site

clean:
	rm -rf $(VENV) $(VENV)-oldest demo-out site
