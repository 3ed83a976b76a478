"""docs/operators.md is what the registry says."""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).parent.parent


def test_the_catalogue_is_up_to_date():
    spec = importlib.util.spec_from_file_location("operator_catalogue", ROOT / "tools" / "operator_catalogue.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    have = (ROOT / "docs" / "operators.md").read_text()
    assert have == tool.catalogue(), "run: python tools/operator_catalogue.py > docs/operators.md"
