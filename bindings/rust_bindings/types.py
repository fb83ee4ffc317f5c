"""Types: from the parser's type objects to Rust, and the conversions between the two forms.

Each message has two Rust forms. The middleware (rmw) form is laid out as its C struct and owns memory
of the C allocator; the idiomatic form uses Vec and String. Bounded strings and bounded sequences are
the same in both forms, so a bounded sequence holds elements of the middleware form.
"""

from rosidl_parser.definition import AbstractSequence
from rosidl_parser.definition import AbstractString
from rosidl_parser.definition import Array
from rosidl_parser.definition import BasicType
from rosidl_parser.definition import BoundedSequence
from rosidl_parser.definition import BoundedString
from rosidl_parser.definition import BoundedWString
from rosidl_parser.definition import NamespacedType
from rosidl_parser.definition import UnboundedString
from rosidl_parser.definition import UnboundedWString

RUNTIME = 'rosidl_runtime_rs'

PRIMITIVES = {
    'boolean': 'bool',
    'octet': 'u8', 'char': 'u8', 'wchar': 'u16',
    'float': 'f32', 'double': 'f64',
    'int8': 'i8', 'int16': 'i16', 'int32': 'i32', 'int64': 'i64',
    'uint8': 'u8', 'uint16': 'u16', 'uint32': 'u32', 'uint64': 'u64',
    'short': 'i16', 'long': 'i32', 'long long': 'i64',
    'unsigned short': 'u16', 'unsigned long': 'u32', 'unsigned long long': 'u64',
}


def primitive(type_):
    """Return the Rust type of a primitive type."""
    try:
        return PRIMITIVES[type_.typename]
    except KeyError:
        raise TypeError(
            "the type '{}' has no counterpart in Rust".format(type_.typename)) from None


def is_text(type_):
    """Whether a type is a string without bound, which differs between the two forms."""
    return isinstance(type_, (UnboundedString, UnboundedWString))


class TypeNames:
    """The Rust names of types as seen from one module of one package.

    Remembers which other packages were named, for the manifest.
    """

    def __init__(self, package, dependencies):
        """Create the names for the package; names of others are added to the set dependencies."""
        self.package = package
        self.dependencies = dependencies

    def message(self, type_, *, rmw, within_rmw):
        """Return the path of a message type, in the rmw or the idiomatic form."""
        package, *modules = type_.namespaces
        if package == self.package:
            path = ['super', 'super'] if within_rmw else ['super']
        else:
            self.dependencies.add(package)
            path = [package]
        path += modules
        if rmw:
            path.append('rmw')
        return '::'.join(path + [type_.name])

    def rmw(self, type_, *, within_rmw):
        """Return the middleware form of any type."""
        if isinstance(type_, BasicType):
            return primitive(type_)
        if isinstance(type_, (BoundedString, BoundedWString)):
            name = 'BoundedString' if isinstance(type_, AbstractString) else 'BoundedWString'
            return '{}::{}<{}>'.format(RUNTIME, name, type_.maximum_size)
        if isinstance(type_, UnboundedString):
            return RUNTIME + '::String'
        if isinstance(type_, UnboundedWString):
            return RUNTIME + '::WString'
        if isinstance(type_, NamespacedType):
            return self.message(type_, rmw=True, within_rmw=within_rmw)
        if isinstance(type_, Array):
            return '[{}; {}]'.format(self.rmw(type_.value_type, within_rmw=within_rmw), type_.size)
        if isinstance(type_, BoundedSequence):
            return '{}::BoundedSequence<{}, {}>'.format(
                RUNTIME, self.rmw(type_.value_type, within_rmw=within_rmw), type_.maximum_size)
        if isinstance(type_, AbstractSequence):
            return '{}::Sequence<{}>'.format(
                RUNTIME, self.rmw(type_.value_type, within_rmw=within_rmw))
        raise TypeError('the type {!r} has no counterpart in Rust'.format(type_))

    def idiomatic(self, type_):
        """Return the idiomatic form of any type, as seen from an idiomatic module."""
        if is_text(type_):
            return 'std::string::String'
        if isinstance(type_, NamespacedType):
            return self.message(type_, rmw=False, within_rmw=False)
        if isinstance(type_, Array):
            return '[{}; {}]'.format(self.idiomatic(type_.value_type), type_.size)
        if isinstance(type_, AbstractSequence) and not isinstance(type_, BoundedSequence):
            return 'Vec<{}>'.format(self.idiomatic(type_.value_type))
        return self.rmw(type_, within_rmw=False)

    # --- Conversions: expressions over an expression of a field --------------------------------------

    def to_rmw_owned(self, type_, field):
        """Return an expression that moves a field of the idiomatic form into the rmw form."""
        if is_text(type_):
            return field + '.as_str().into()'
        if isinstance(type_, NamespacedType):
            return self._message_to_rmw(type_, 'std::borrow::Cow::Owned({})'.format(field))
        if isinstance(type_, Array) and self._differs(type_.value_type):
            return '{}.map(|item| {})'.format(field, self.to_rmw_owned(type_.value_type, 'item'))
        if isinstance(type_, AbstractSequence) and not isinstance(type_, BoundedSequence):
            if not self._differs(type_.value_type):
                return field + '.into()'
            return '{}.into_iter().map(|item| {}).collect()'.format(
                field, self.to_rmw_owned(type_.value_type, 'item'))
        return field

    def to_rmw_borrowed(self, type_, field):
        """Return an expression that copies a field of the idiomatic form into the rmw form."""
        if isinstance(type_, BasicType):
            return field
        if is_text(type_):
            return field + '.as_str().into()'
        if isinstance(type_, NamespacedType):
            return self._message_to_rmw(type_, 'std::borrow::Cow::Borrowed(&{})'.format(field))
        if isinstance(type_, Array):
            if isinstance(type_.value_type, BasicType):
                return field
            if self._differs(type_.value_type):
                return '{}.each_ref().map(|item| {})'.format(
                    field, self._item_to_rmw(type_.value_type))
        if isinstance(type_, AbstractSequence) and not isinstance(type_, BoundedSequence):
            if not self._differs(type_.value_type):
                return field + '.as_slice().into()'
            return '{}.iter().map(|item| {}).collect()'.format(
                field, self._item_to_rmw(type_.value_type))
        return field + '.clone()'

    def from_rmw(self, type_, field):
        """Return an expression that moves a field of the rmw form into the idiomatic form."""
        if is_text(type_):
            return field + '.to_string()'
        if isinstance(type_, NamespacedType):
            return '<{} as {}::Message>::from_rmw_message({})'.format(
                self.message(type_, rmw=False, within_rmw=False), RUNTIME, field)
        if isinstance(type_, Array) and self._differs(type_.value_type):
            return '{}.map(|item| {})'.format(field, self.from_rmw(type_.value_type, 'item'))
        if isinstance(type_, AbstractSequence) and not isinstance(type_, BoundedSequence):
            if isinstance(type_.value_type, BasicType):
                return field + '.as_slice().to_vec()'
            if not self._differs(type_.value_type):
                return field + '.into_iter().collect()'
            return '{}.into_iter().map(|item| {}).collect()'.format(
                field, self.from_rmw(type_.value_type, 'item'))
        return field

    @staticmethod
    def _differs(type_):
        """Whether an element's two forms differ."""
        return is_text(type_) or isinstance(type_, NamespacedType)

    def _item_to_rmw(self, type_):
        if isinstance(type_, NamespacedType):
            return self._message_to_rmw(type_, 'std::borrow::Cow::Borrowed(item)')
        return self.to_rmw_borrowed(type_, 'item')

    def _message_to_rmw(self, type_, cow):
        return '<{} as {}::Message>::into_rmw_message({}).into_owned()'.format(
            self.message(type_, rmw=False, within_rmw=False), RUNTIME, cow)
