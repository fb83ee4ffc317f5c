"""Services: the marker types that tie request, response and type support together."""

from .message import ALLOW_TYPE
from .names import c_name


def service(definition):
    """Return the lines of a service's type; they are alike in the rmw and the idiomatic module."""
    type_ = definition.namespaced_type
    handle = 'rosidl_typesupport_c__get_service_type_support_handle__' + c_name(type_)
    return [
        '#[link(name = "{}__rosidl_typesupport_c")]'.format(type_.namespaces[0]),
        'extern "C" {',
        '    fn {}() -> *const std::ffi::c_void;'.format(handle),
        '}',
        '',
        ALLOW_TYPE,
        'pub struct {};'.format(type_.name),
        '',
        'impl rosidl_runtime_rs::Service for {} {{'.format(type_.name),
        '    type Request = {}_Request;'.format(type_.name),
        '    type Response = {}_Response;'.format(type_.name),
        '    fn get_type_support() -> *const std::ffi::c_void {',
        '        // SAFETY: there is nothing to be held before the call.',
        '        unsafe {{ {}() }}'.format(handle),
        '    }',
        '}']
