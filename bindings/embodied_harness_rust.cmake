# Rust nodes in other packages:
#
#   find_package(embodied_harness REQUIRED)
#   embodied_harness_add_rust_programs(wave_skill_node INTERFACES embodied_harness)
#
# builds programs of the Cargo package beside the CMakeLists.txt and installs them to lib/<package>. The
# crate ros-env finds bindings of the named packages of interfaces and of all that these use: their own
# where they bring some, as from ROS 2 Lyrical on, else generated ones.

function(embodied_harness_add_rust_programs)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "INTERFACES")
  if(NOT arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "embodied_harness_add_rust_programs: name at least one program")
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  find_program(CARGO_EXECUTABLE cargo HINTS "$ENV{HOME}/.cargo/bin")
  if(NOT CARGO_EXECUTABLE)
    message(FATAL_ERROR "cargo was not found: install Rust with rustup (https://rustup.rs)")
  endif()

  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(profile dev)
    set(output "${CMAKE_CURRENT_BINARY_DIR}/cargo/debug")
  else()
    set(profile release)
    set(output "${CMAKE_CURRENT_BINARY_DIR}/cargo/release")
  endif()
  set(stage "${CMAKE_CURRENT_BINARY_DIR}/rust_stage")
  set(binaries "")
  foreach(program IN LISTS arg_UNPARSED_ARGUMENTS)
    list(APPEND binaries --bin ${program})
  endforeach()

  # Both know best what is up to date, so they are asked each time.
  add_custom_target(${PROJECT_NAME}_rust_programs ALL
    COMMAND ${CMAKE_COMMAND} -E env
      --modify "PYTHONPATH=path_list_prepend:${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../bindings"
      PYTHONDONTWRITEBYTECODE=1
      ${Python3_EXECUTABLE} -m rust_bindings --stage "${stage}" --depends ${arg_INTERFACES}
    COMMAND ${CMAKE_COMMAND} -E env
      --modify "AMENT_PREFIX_PATH=path_list_prepend:${stage}"
      "CARGO_TARGET_DIR=${CMAKE_CURRENT_BINARY_DIR}/cargo"
      ${CARGO_EXECUTABLE} build --profile ${profile} ${binaries}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "Building Rust programs"
    USES_TERMINAL
    VERBATIM
  )
  foreach(program IN LISTS arg_UNPARSED_ARGUMENTS)
    install(PROGRAMS "${output}/${program}" DESTINATION lib/${PROJECT_NAME})
  endforeach()
endfunction()
