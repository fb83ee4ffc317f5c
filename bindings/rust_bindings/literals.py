"""Constants: from values of the parser to Rust literals."""

import json
import math

from rosidl_parser.definition import AbstractGenericString
from rosidl_parser.definition import BasicType

from .types import primitive


def rust_string(text):
    """Return a Rust string literal, ASCII only."""
    parts = []
    for character in text:
        if character in ('"', '\\'):
            parts.append('\\' + character)
        elif ' ' <= character <= '~':
            parts.append(character)
        else:
            parts.append('\\u{{{:x}}}'.format(ord(character)))
    return '"' + ''.join(parts) + '"'


def rust_number(rust_type, value):
    """Return a Rust literal of a primitive type."""
    if rust_type == 'bool':
        return 'true' if value else 'false'
    if rust_type in ('f32', 'f64'):
        value = float(value)
        if math.isnan(value):
            return rust_type + '::NAN'
        if math.isinf(value):
            return rust_type + ('::INFINITY' if value > 0 else '::NEG_INFINITY')
        return json.dumps(value)
    if isinstance(value, str):
        # A character literal of a pure IDL file.
        return str(ord(value))
    return str(int(value))


def constant(type_, value):
    """Return the Rust type and the literal of a constant."""
    if isinstance(type_, BasicType):
        rust_type = primitive(type_)
        return rust_type, rust_number(rust_type, value)
    if isinstance(type_, AbstractGenericString):
        return "&'static str", rust_string(value)
    raise TypeError('a constant cannot be of the type {!r}'.format(type_))
