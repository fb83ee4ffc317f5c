"""Reads each interface definition once, however many generators ask for it.

Seven generators parse the definitions of a package one after another, which is almost half of their time.
repair_wheels.py puts this module into the private environment and wraps rosidl_parser's function by it.
"""

import functools
import hashlib
import os
import pathlib
import pickle
import sys
import tempfile

FOLDER = pathlib.Path(sys.prefix) / 'var' / 'idl_cache'


def once(parse):
    """Wrap `parse(idl_string)`: what it gave for a text is kept in a file named after that text."""
    @functools.wraps(parse)
    def cached(idl_string, png_file=None):
        if png_file:
            return parse(idl_string, png_file=png_file)
        path = FOLDER / (hashlib.sha256(idl_string.encode()).hexdigest() + '.pickle')
        try:
            return pickle.loads(path.read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            content = parse(idl_string)
        keep(path, pickle.dumps(content))
        return content
    return cached


def keep(path, data):
    """Write a file as a whole: several generators run at a time. Without it there is only less speed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    except OSError:
        pass
