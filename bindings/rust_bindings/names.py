"""Names: from interface definitions to Rust and to the C libraries of a package."""

# https://doc.rust-lang.org/reference/keywords.html, strict and reserved ones.
RUST_KEYWORDS = frozenset((
    'abstract', 'as', 'async', 'await', 'become', 'box', 'break', 'const', 'continue', 'crate',
    'do', 'dyn', 'else', 'enum', 'extern', 'false', 'final', 'fn', 'for', 'gen', 'if', 'impl',
    'in', 'let', 'loop', 'macro', 'match', 'mod', 'move', 'mut', 'override', 'priv', 'pub', 'ref',
    'return', 'self', 'Self', 'static', 'struct', 'super', 'trait', 'true', 'try', 'type',
    'typeof', 'unsafe', 'unsized', 'use', 'virtual', 'where', 'while', 'yield'))


def rust_name(name):
    """Return the Rust name of a field or constant: keywords get a trailing underscore."""
    return name + '_' if name in RUST_KEYWORDS else name


def c_name(namespaced_type):
    """Return the C name of a type, for example std_msgs__msg__String."""
    return '__'.join(namespaced_type.namespaced_name())


def ros_name(namespaced_type):
    """Return the ROS name of a type, for example std_msgs/msg/String."""
    return '/'.join(namespaced_type.namespaced_name())
