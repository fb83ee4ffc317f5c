"""Writes docs/parameters.md from what the nodes say of their own parameters."""

HEAD = """# Parameters

Written by the nodes themselves: `test/test_parameter_files.py` fails when this page differs from what they
declare, and `EMBODIED_HARNESS_UPDATE_DOCS=1 scripts/test -- test/test_parameter_files.py` writes it anew.

Values are those of the package's files in `params/`, which a `params_file` of your own overrides, with sections
`/**/<node>:` or, for all nodes, `/**:`. "launch" means that an argument of the launch files sets it. Parameters
are read when a node starts, unless *live* says that `ros2 param set` changes them while it runs. A value out of
its range ends the node at its start with a sentence that names the parameter and the range.
"""
# Numbers of rcl_interfaces/ParameterType.
TYPES = {
    1: "bool", 2: "integer", 3: "number", 4: "text", 5: "bytes", 6: "bools", 7: "integers", 8: "numbers", 9: "texts",
}  # fmt: skip


def shown(value):
    """A value as one writes it in a parameter file."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if isinstance(value, (int, float)):
        return repr(value)
    return "[" + ", ".join(shown(v) for v in value) + "]"


def range_of(descriptor):
    """The range of a parameter; empty when there is none."""
    for found in (*descriptor.floating_point_range, *descriptor.integer_range):
        return f"{found.from_value:g} … {found.to_value:g}"
    return ""


def page(nodes):
    """The whole page; `nodes` has, by node, (name, descriptor, value or None, whether launch sets it)."""
    lines = [HEAD.rstrip()]
    for node, parameters in nodes.items():
        lines += ["", f"## {node}", "| parameter | type | value | range | meaning |", "|---|---|---|---|---|"]
        for name, descriptor, value, by_launch in parameters:
            meaning = descriptor.description.replace("|", "\\|").replace("\n", " ")
            if not descriptor.read_only:
                meaning += " *live*"
            cells = (
                f"`{name}`",
                TYPES.get(descriptor.type, "any"),
                "launch" if by_launch else shown(value),
                range_of(descriptor),
                meaning,
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
