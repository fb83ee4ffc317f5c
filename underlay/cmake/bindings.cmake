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

# Sets a variable to what rosidl_generate_interfaces() is to read. Eight generators parse every definition, and
# comments take most of that time: where bindings are cut down anyway, copies without comments are read.
function(definitions_to_generate_from variable)
  if(EMBODIED_HARNESS_CPP_BINDINGS)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/definitions")
  set(tuples "")
  foreach(file IN LISTS ARGN)
    file(READ "${file}" text)
    string(REGEX REPLACE "(^|\n)[ \t]*#[^\n]*" "\\1" text "${text}")
    file(WRITE "${folder}/new" "${text}")
    cmake_path(GET file PARENT_PATH kind)
    file(MAKE_DIRECTORY "${folder}/${kind}")
    file(COPY_FILE "${folder}/new" "${folder}/${file}" ONLY_IF_DIFFERENT)
    list(APPEND tuples "${folder}:${file}")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  set(${variable} ${tuples} PARENT_SCOPE)
endfunction()

# To be called after rosidl_generate_interfaces(): sources are compiled in batches, since nearly all of their time
# goes into the same headers.
function(compile_type_supports_in_batches)
  if(EMBODIED_HARNESS_CPP_BINDINGS)
    return()
  endif()
  foreach(part
      generator_c generator_py typesupport_c typesupport_fastrtps_c typesupport_introspection_c)
    set(target ${PROJECT_NAME}__rosidl_${part})
    if(NOT TARGET ${target})
      continue()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 32)
    # Each of these holds a copy of what it refers to, under the same static names.
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "__description\\.c$")
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
