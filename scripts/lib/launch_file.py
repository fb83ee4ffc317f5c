"""Reads the part of the ROS 2 launch XML format that our launch files use.

What it does not know it refuses with the file, the tag and the attribute, so that a launch file never means
one thing to `ros2 launch` and another here.
"""

import os
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import yaml

# Tag: (required attributes, optional attributes, allowed children).
TAGS = {
    "launch": ((), (), ("arg", "group", "node", "include", "push_ros_namespace", "set_remap")),
    "arg": (("name",), ("default", "description"), ()),
    "group": ((), ("if", "unless"), ("group", "node", "include", "push_ros_namespace", "set_remap")),
    "push_ros_namespace": (("namespace",), ("if", "unless"), ()),
    "node": (
        ("pkg", "exec", "name"),
        ("output", "respawn", "respawn_delay", "args", "ros_args", "if", "unless"),
        ("param", "remap"),
    ),
    "param": ((), ("from", "name", "value"), ()),
    "remap": (("from", "to"), (), ()),
    "set_remap": (("from", "to"), ("if", "unless"), ()),
    "include": (("file",), ("if", "unless"), ("arg",)),
}
# An argument that is handed to an included file.
INCLUDE_ARG = (("name", "value"), (), ())


class LaunchFileError(Exception):
    """A launch file, or an argument for it, can't be used."""


@dataclass
class Argument:
    """An argument of a launch file."""

    name: str
    default: str | None
    description: str


@dataclass
class Node:
    """A node to start, with everything resolved."""

    package: str
    executable: str
    name: str
    namespace: str = "/"
    arguments: list[str] = field(default_factory=list)
    ros_arguments: list[str] = field(default_factory=list)
    # In their order: a path of a parameter file, or a dict of parameters.
    parameters: list[str | dict] = field(default_factory=list)
    remaps: list[tuple[str, str]] = field(default_factory=list)
    respawn: bool = False
    respawn_delay: float = 0.0


@dataclass
class _Scope:
    """What holds at one place of a file: values of arguments, the namespace, remaps of every node."""

    file: Path
    values: dict
    namespace: str
    remaps: tuple = ()


def read(path, values=None, find_share=None):
    """Returns the nodes that a launch file starts.

    `values` are launch arguments by name, `find_share` gives the share folder of a package.
    """
    nodes = []
    scope = _Scope(Path(path), dict(values or {}), "/")
    known = {argument.name for argument in declared_arguments(path)}
    for name in scope.values:
        if name not in known:
            raise LaunchFileError(
                f"{path} has no argument '{name}'; it has: {', '.join(sorted(known))}"
            )
    _walk(_parse(scope.file), scope, find_share or find_package_share, nodes)
    return nodes


def declared_arguments(path):
    """Returns the arguments that a launch file declares at its top."""
    root = _parse(Path(path))
    return [
        Argument(e.get("name"), e.get("default"), e.get("description", ""))
        for e in root
        if e.tag == "arg"
    ]


def _parse(path):
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise LaunchFileError(f"{path} can't be read: {error.strerror}") from error
    except ElementTree.ParseError as error:
        raise LaunchFileError(f"{path} is no XML: {error}") from error
    if root.tag != "launch":
        raise LaunchFileError(f"{path}: the outermost tag is <{root.tag}>, it has to be <launch>")
    _check(root, path, TAGS["launch"])
    return root


def _check(element, path, rule):
    required, optional, children = rule
    for name in required:
        if name not in element.attrib:
            raise LaunchFileError(f"{path}: <{element.tag}> needs the attribute '{name}'")
    for name in element.attrib:
        if name not in required and name not in optional:
            raise LaunchFileError(
                f"{path}: <{element.tag}> with the attribute '{name}' is not understood; "
                f"known are: {', '.join(required + optional) or 'none'}"
            )
    if (element.text or "").strip():
        raise LaunchFileError(f"{path}: text in <{element.tag}> is not understood: {element.text.strip()!r}")
    for child in element:
        if (child.tail or "").strip():
            raise LaunchFileError(f"{path}: text in <{element.tag}> is not understood: {child.tail.strip()!r}")
        if child.tag not in children:
            raise LaunchFileError(
                f"{path}: <{child.tag}> in <{element.tag}> is not understood; "
                f"known are: {', '.join(children) or 'none'}"
            )
        rule = INCLUDE_ARG if (element.tag, child.tag) == ("include", "arg") else TAGS[child.tag]
        _check(child, path, rule)
    if element.tag == "param":
        given = set(element.attrib)
        if given not in ({"from"}, {"name", "value"}):
            raise LaunchFileError(f"{path}: <param> needs either 'from', or 'name' and 'value'")


def _walk(element, scope, find_share, nodes):
    for child in element:
        resolve = lambda text: substitute(text, scope, find_share)  # noqa: E731
        if child.tag == "arg":
            name = child.get("name")
            if name not in scope.values:
                if child.get("default") is None:
                    raise LaunchFileError(f"{scope.file}: the argument '{name}' is required: give {name}:=…")
                scope.values[name] = resolve(child.get("default"))
            continue
        if not _holds(child, scope, resolve):
            continue
        if child.tag == "group":
            inner = _Scope(scope.file, dict(scope.values), scope.namespace, scope.remaps)
            _walk(child, inner, find_share, nodes)
        elif child.tag == "push_ros_namespace":
            scope.namespace = _join(scope.namespace, resolve(child.get("namespace")))
        elif child.tag == "set_remap":
            scope.remaps += ((resolve(child.get("from")), resolve(child.get("to"))),)
        elif child.tag == "include":
            file = Path(resolve(child.get("file")))
            given = {a.get("name"): resolve(a.get("value")) for a in child}
            known = {a.name for a in declared_arguments(file)}
            for name in given:
                if name not in known:
                    raise LaunchFileError(f"{scope.file}: {file} has no argument '{name}'")
            inner = _Scope(file, {**scope.values, **given}, scope.namespace, scope.remaps)
            _walk(_parse(file), inner, find_share, nodes)
        elif child.tag == "node":
            nodes.append(_node(child, scope, resolve))


def _holds(element, scope, resolve):
    for name, wanted in (("if", True), ("unless", False)):
        text = element.get(name)
        if text is not None and _boolean(resolve(text), f"{scope.file}: <{element.tag} {name}>") != wanted:
            return False
    return True


def _node(element, scope, resolve):
    where = f"{scope.file}: <node name=\"{element.get('name')}\">"
    node = Node(
        resolve(element.get("pkg")),
        resolve(element.get("exec")),
        resolve(element.get("name")),
        scope.namespace,
        resolve(element.get("args", "")).split(),
        resolve(element.get("ros_args", "")).split(),
        remaps=list(scope.remaps),
    )
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", node.name):
        raise LaunchFileError(f"{where}: '{node.name}' is no name of a node")
    node.respawn = _boolean(resolve(element.get("respawn", "false")), f"{where}: respawn")
    delay = resolve(element.get("respawn_delay", "0"))
    try:
        node.respawn_delay = float(delay)
    except ValueError as error:
        raise LaunchFileError(f"{where}: respawn_delay is '{delay}', it has to be a number of seconds") from error
    for child in element:
        if child.tag == "remap":
            node.remaps.append((resolve(child.get("from")), resolve(child.get("to"))))
        elif child.get("from") is not None:
            path = resolve(child.get("from"))
            if not Path(path).is_file():
                raise LaunchFileError(f"{where}: the parameter file {path} does not exist")
            node.parameters.append(path)
        else:
            node.parameters.append({resolve(child.get("name")): typed(resolve(child.get("value")))})
    return node


def typed(text):
    """The value of a parameter's text: what YAML makes of it if that is a parameter, else the text."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    scalars = (bool, int, float, str)
    if isinstance(value, scalars):
        return value
    if isinstance(value, list) and value and len({type(v) for v in value}) == 1 and isinstance(value[0], scalars):
        return value
    return text


def _boolean(text, where):
    lowered = text.strip().lower()
    if lowered in ("true", "1"):
        return True
    if lowered in ("false", "0"):
        return False
    raise LaunchFileError(f"{where} is '{text}', it has to be true or false")


def _join(namespace, name):
    if name.startswith("/"):
        joined = name
    else:
        joined = f"{namespace.rstrip('/')}/{name}"
    joined = joined.rstrip("/") or "/"
    if not re.fullmatch(r"/|(/[A-Za-z_][A-Za-z0-9_]*)+", joined):
        raise LaunchFileError(f"'{name}' is no namespace: use letters, digits and _, not beginning with a digit")
    return joined


def substitute(text, scope, find_share):
    """Replaces `$(var x)`, `$(find-pkg-share p)`, `$(env N)` and `$(env N default)`."""

    def one(match):
        words = match.group(1).split(None, 2)
        if words[:1] == ["var"] and len(words) == 2:
            if words[1] not in scope.values:
                raise LaunchFileError(f"{scope.file}: $(var {words[1]}) names no argument declared before it")
            return scope.values[words[1]]
        if words[:1] == ["find-pkg-share"] and len(words) == 2:
            return str(find_share(words[1]))
        if words[:1] == ["env"] and len(words) >= 2:
            value = os.environ.get(words[1], words[2].strip("'\"") if len(words) == 3 else None)
            if value is None:
                raise LaunchFileError(f"{scope.file}: the environment variable {words[1]} is not set")
            return value
        raise LaunchFileError(f"{scope.file}: $({match.group(1)}) is not understood")

    if re.search(r"\$\([^)]*\$\(", text):
        raise LaunchFileError(f"{scope.file}: '{text}' is not understood: no $( ) within $( )")
    return re.sub(r"\$\(([^)]*)\)", one, text)


def find_package_prefix(package):
    """The prefix in AMENT_PREFIX_PATH that holds a package."""
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(":"):
        if prefix and (Path(prefix) / "share" / package / "package.xml").is_file():
            return Path(prefix)
    raise LaunchFileError(
        f"the package {package} is not in AMENT_PREFIX_PATH; run scripts/setup and load the environment"
    )


def find_package_share(package):
    """The share folder of a package."""
    return find_package_prefix(package) / "share" / package
