# Which bindings a package of interfaces gets besides those for Python. To be included after the last
# find_package().
#
# Those for C++ serve nobody where no C++ client library is installed, and without them a package takes
# half the time to build. scripts/setup leaves them out of its private environment.
#
# Both type supports for C stay: rmw_fastrtps_cpp sends with one and describes the type with the other.

option(EMBODIED_HARNESS_CPP_BINDINGS "Build the bindings for C++" ON)

if(NOT EMBODIED_HARNESS_CPP_BINDINGS)
  list(FILTER AMENT_EXTENSIONS_rosidl_generate_idl_interfaces EXCLUDE REGEX "_cpp:")
endif()

# To be called after rosidl_generate_interfaces(): the sources of the type support for Fast DDS, which are
# C++, are compiled in batches, since nearly all of their time goes into the same headers.
function(compile_type_supports_in_batches)
  set(target ${PROJECT_NAME}__rosidl_typesupport_fastrtps_c)
  if(NOT EMBODIED_HARNESS_CPP_BINDINGS AND TARGET ${target})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()
