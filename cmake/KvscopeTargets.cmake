# One place for what every target of the project shares: language level, warnings, version macro-free build info.
add_library(kvscope_options INTERFACE)
target_compile_features(kvscope_options INTERFACE cxx_std_20)
# Bits must not depend on what the compiler chose to fuse: kernels fuse explicitly, everything else does not. nvcc has
# flags of its own (KvscopeCuda.cmake).
target_compile_options(kvscope_options INTERFACE "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:\
-Wall;-Wextra;-Wpedantic;-Wconversion;-Wno-sign-conversion;-ffp-contract=off;$<$<BOOL:${KVSCOPE_WERROR}>:-Werror>>")
target_include_directories(kvscope_options INTERFACE "${PROJECT_SOURCE_DIR}")

# kvscope_library(NAME): static library kvscope_NAME with the alias kvscope::NAME.
function(kvscope_library name)
  add_library(kvscope_${name} STATIC)
  add_library(kvscope::${name} ALIAS kvscope_${name})
  target_link_libraries(kvscope_${name} PUBLIC kvscope_options)
endfunction()

# kvscope_build_with(TARGET LABEL…): unit_tests, threads_tests, …: build what one label needs.
function(kvscope_build_with target)
  foreach(label IN LISTS ARGN)
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${target})
  endforeach()
endfunction()

# kvscope_test(NAME LABELS unit SOURCES a_test.cpp LIBS kvscope::runner): one GoogleTest binary, one ctest per case,
# so that a skipped case is reported as skipped. PREFIX: of the cases' names in ctest; ENVIRONMENT: NAME=value … of them.
function(kvscope_test name)
  cmake_parse_arguments(T "" "TIMEOUT;PREFIX" "LABELS;SOURCES;LIBS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LIBS} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE
    KVSCOPE_SHARED_DIR="${PROJECT_SOURCE_DIR}/../shared"
    KVSCOPE_PROGRAM="${CMAKE_BINARY_DIR}/kvscope"
    KVSCOPE_PLUGIN_DIR="${CMAKE_BINARY_DIR}/plugins"
    KVSCOPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  # Without values: those of unprintable parameters are bytes, among them addresses, and no name for a case.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    TEST_PREFIX "${T_PREFIX}" PROPERTIES TIMEOUT ${T_TIMEOUT})
  # gtest_discover_tests keeps only the first of several values, so these are set once ctest has the list of cases.
  set(label_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${label_file}" "foreach(test IN LISTS ${name}_TESTS)
  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${T_LABELS}\" ENVIRONMENT \"${T_ENVIRONMENT}\")
endforeach()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${label_file}")
  kvscope_build_with(${name} ${T_LABELS})
endfunction()
