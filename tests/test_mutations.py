"""The changes of scripts/mutations.toml fit the code, so that the script can make them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from mutations import SOURCE, Mutation, mutations
from proposals import tests_by_id


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: f"{mutation.ids[0]}: {mutation.about}")
def test_a_mutation_changes_one_place_and_its_ids_have_tests(mutation: Mutation) -> None:
    text = (SOURCE / mutation.file).read_text()
    assert mutation.changed(text) != text
    assert set(mutation.ids) <= tests_by_id().keys()
