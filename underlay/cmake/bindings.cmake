# Which bindings a package of interfaces gets besides those for Python. To be included after the last
# find_package().
#
# Those for C++ serve nobody where no C++ client library is installed. Without them a package takes less
# than half the time to build, but rmw_fastrtps_cpp asks for the introspection type supports when it
# registers a type, and a Python or Rust subscription fails without them: leave this ON for whatever is run.

option(EMBODIED_HARNESS_ALL_BINDINGS "Build the bindings for C++ and for every middleware" ON)

if(NOT EMBODIED_HARNESS_ALL_BINDINGS)
  list(FILTER AMENT_EXTENSIONS_rosidl_generate_idl_interfaces EXCLUDE REGEX "_cpp:|introspection")
  set(STATIC_ROSIDL_TYPESUPPORT_C rosidl_typesupport_fastrtps_c)
endif()

# To be called after rosidl_generate_interfaces(). The C sources cannot be batched: static names clash.
function(compile_type_supports_in_batches)
  if(NOT EMBODIED_HARNESS_ALL_BINDINGS)
    set_target_properties(
      ${PROJECT_NAME}__rosidl_typesupport_c ${PROJECT_NAME}__rosidl_typesupport_fastrtps_c
      PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()
