"""Each switch with which a guard can be taken away fits the sources as they are."""

import pathlib
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / 'scripts' / 'lib'))

import guards  # noqa: E402, I100

# Invariants of the design whose guards the deterministic world has to miss.
INVARIANTS = {1, 2, 3, 4, 5, 6, 11, 12, 13, 16}


def sources():
    return {str(p.relative_to(TOP)): p.read_bytes() for p in (TOP / 'src').rglob('*.rs')}


def test_every_switch_fits_and_every_invariant_has_one():
    switched = guards.switched(sources())
    for guard in guards.GUARDS:
        for file, _, _ in guard.places:
            assert 'is_removed("{}")'.format(guard.name).encode() in switched[file], guard.name
    assert {guard.invariant for guard in guards.GUARDS} >= INVARIANTS


def test_a_guard_that_was_changed_is_named():
    guard = guards.GUARDS[0]
    file, old, _ = guard.places[0]
    texts = sources()
    texts[file] = texts[file].replace(old.encode(), b'')
    with pytest.raises(guards.Trouble, match=guard.name):
        guards.switched(texts)


def test_the_product_has_no_switch():
    assert not [file for file, text in sources().items() if b'eh_contract::is_removed' in text]


def test_the_table_has_every_guard():
    table = (TOP / 'docs' / 'guards.md').read_text()
    assert [g.name for g in guards.GUARDS if '| {} |'.format(g.name) not in table] == []
    assert 'not found' not in table
