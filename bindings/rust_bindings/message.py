"""Messages: the two Rust forms of one structure."""

from . import literals
from .names import c_name
from .names import ros_name
from .names import rust_name

ALLOW_TYPE = '#[allow(non_camel_case_types)]'


def documentation(annotatable, indent=''):
    """Return the definition's own comment as lines of Rust documentation."""
    lines = annotatable.get_comment_lines()
    return [
        (indent + '/// ' + line.replace('[', '\\[').replace(']', '\\]')).rstrip()
        for line in lines]


def _constants(message):
    if not message.constants:
        return []
    lines = ['impl {} {{'.format(message.structure.namespaced_type.name)]
    for constant in message.constants:
        rust_type, literal = literals.constant(constant.type, constant.value)
        lines += documentation(constant, '    ')
        lines.append('    pub const {}: {} = {};'.format(
            rust_name(constant.name), rust_type, literal))
    lines.append('}')
    return lines


def _structure(message, field_type, attributes):
    structure = message.structure
    lines = documentation(structure)
    lines += [ALLOW_TYPE, *attributes, '#[derive(Clone, Debug, PartialEq, PartialOrd)]']
    lines.append('pub struct {} {{'.format(structure.namespaced_type.name))
    for member in structure.members:
        lines += documentation(member, '    ')
        lines.append('    pub {}: {},'.format(rust_name(member.name), field_type(member.type)))
    lines.append('}')
    return lines + _constants(message)


def rmw_form(message, types):
    """Return the lines of the middleware form."""
    type_ = message.structure.namespaced_type
    package = type_.namespaces[0]
    replacements = {
        '@NAME@': type_.name, '@C@': c_name(type_), '@ROS@': ros_name(type_), '@PACKAGE@': package}
    lines = _structure(
        message, lambda field: types.rmw(field, within_rmw=True), ['#[repr(C)]'])
    for line in RMW_TRAITS.splitlines():
        for key, value in replacements.items():
            line = line.replace(key, value)
        lines.append(line)
    return lines


RMW_TRAITS = '''\
#[link(name = "@PACKAGE@__rosidl_typesupport_c")]
extern "C" {
    fn rosidl_typesupport_c__get_message_type_support_handle__@C@() -> *const std::ffi::c_void;
}

#[link(name = "@PACKAGE@__rosidl_generator_c")]
#[allow(improper_ctypes)]
extern "C" {
    fn @C@__init(message: *mut @NAME@) -> bool;
    fn @C@__Sequence__init(sequence: *mut rosidl_runtime_rs::Sequence<@NAME@>, size: usize) -> bool;
    fn @C@__Sequence__fini(sequence: *mut rosidl_runtime_rs::Sequence<@NAME@>);
    fn @C@__Sequence__copy(from: *const rosidl_runtime_rs::Sequence<@NAME@>, to: *mut rosidl_runtime_rs::Sequence<@NAME@>) -> bool;
}

impl Default for @NAME@ {
    fn default() -> Self {
        // SAFETY: every field is valid when all zero, and the function of the package's own C library
        // sets the defaults of the definition on such a message.
        unsafe {
            let mut message: Self = std::mem::zeroed();
            if !@C@__init(&mut message) {
                panic!("out of memory while making a @ROS@");
            }
            message
        }
    }
}

impl rosidl_runtime_rs::SequenceAlloc for @NAME@ {
    fn sequence_init(sequence: &mut rosidl_runtime_rs::Sequence<Self>, size: usize) -> bool {
        // SAFETY: the reference is valid and the layout is that of the C sequence.
        unsafe { @C@__Sequence__init(sequence, size) }
    }
    fn sequence_fini(sequence: &mut rosidl_runtime_rs::Sequence<Self>) {
        // SAFETY: the reference is valid and the layout is that of the C sequence.
        unsafe { @C@__Sequence__fini(sequence) }
    }
    fn sequence_copy(from: &rosidl_runtime_rs::Sequence<Self>, to: &mut rosidl_runtime_rs::Sequence<Self>) -> bool {
        // SAFETY: the references are valid and the layouts are that of the C sequence.
        unsafe { @C@__Sequence__copy(from, to) }
    }
}

impl rosidl_runtime_rs::Message for @NAME@ {
    type RmwMsg = Self;
    fn into_rmw_message(message: std::borrow::Cow<'_, Self>) -> std::borrow::Cow<'_, Self> {
        message
    }
    fn from_rmw_message(message: Self) -> Self {
        message
    }
}

impl rosidl_runtime_rs::RmwMessage for @NAME@ {
    const TYPE_NAME: &'static str = "@ROS@";
    fn get_type_support() -> *const std::ffi::c_void {
        // SAFETY: there is nothing to be held before the call.
        unsafe { rosidl_typesupport_c__get_message_type_support_handle__@C@() }
    }
}
'''


def idiomatic_form(message, types):
    """Return the lines of the idiomatic form."""
    type_ = message.structure.namespaced_type
    name = type_.name
    rmw = types.message(type_, rmw=True, within_rmw=False)
    members = message.structure.members
    lines = _structure(message, types.idiomatic, [])
    lines += [
        'impl Default for {} {{'.format(name),
        '    fn default() -> Self {',
        '        <Self as rosidl_runtime_rs::Message>::from_rmw_message({}::default())'.format(rmw),
        '    }',
        '}',
        '',
        'impl rosidl_runtime_rs::Message for {} {{'.format(name),
        '    type RmwMsg = {};'.format(rmw),
        "    fn into_rmw_message(message: std::borrow::Cow<'_, Self>)"
        " -> std::borrow::Cow<'_, Self::RmwMsg> {",
        '        std::borrow::Cow::Owned(match message {',
        '            std::borrow::Cow::Owned(message) => Self::RmwMsg {']
    lines += _fields(members, types.to_rmw_owned, 16)
    lines += [
        '            },',
        '            std::borrow::Cow::Borrowed(message) => Self::RmwMsg {']
    lines += _fields(members, types.to_rmw_borrowed, 16)
    lines += [
        '            },',
        '        })',
        '    }',
        '    fn from_rmw_message(message: Self::RmwMsg) -> Self {',
        '        Self {']
    lines += _fields(members, types.from_rmw, 12)
    lines += ['        }', '    }', '}']
    return lines


def _fields(members, conversion, indent):
    return [
        '{}{}: {},'.format(
            ' ' * indent, rust_name(member.name),
            conversion(member.type, 'message.' + rust_name(member.name)))
        for member in members]
