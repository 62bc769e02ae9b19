# One function for each kind of target, so that warnings, sanitizers and test settings are the same everywhere.

add_library(muster_flags INTERFACE)
target_include_directories(muster_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(muster_flags INTERFACE -Wall -Wextra -Wpedantic -Werror -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105329).
  target_compile_options(muster_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(muster_flags INTERFACE -Wthread-safety)
endif()
if(MUSTER_SANITIZE)
  target_compile_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Instrumented, GCC takes members of std::regex and std::variant for uninitialised.
    target_compile_options(muster_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

# muster_library(NAME SOURCES a.cc b.cc DEPS x y [FAST]): the headers lie beside the sources. FAST: what runs for each
# message or each line of output. The rest is compiled to be small: half the size, and fewer pages that a start touches.
function(muster_library name)
  cmake_parse_arguments(ARG "FAST" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(NOT ARG_FAST)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Os>)
  endif()
  target_link_libraries(${name} PUBLIC muster_flags ${ARG_DEPS})
endfunction()

# muster_embed(OUT FOLDER NAMESPACE FUNCTION HEADER): a source that holds the Python files below FOLDER of this
# directory, as FUNCTION declared in HEADER returns them. So an image needs no package of ours.
function(muster_embed out folder namespace function header)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  file(GLOB_RECURSE python CONFIGURE_DEPENDS ${folder}/*.py)
  add_custom_command(
    OUTPUT ${file}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DNAMESPACE=${namespace} -DFUNCTION=${function} -DHEADER=${header}
            -DOUT=${file} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${python} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  set(${out} ${file} PARENT_SCOPE)
endfunction()

# All tests that have a label, so that a stage of tests/run.sh builds what it will run and no list can miss a test.
# threads: what ThreadSanitizer has something to say about; no other code of ours starts or meets a second thread.
foreach(label unit simulation threads)
  add_custom_target(tests_${label})
endforeach()

# What nearly every test includes, parsed once for all of them: that was a third of their compile time.
function(muster_test_headers)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cc CONTENT "")
  add_library(muster_test_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cc)
  target_link_libraries(muster_test_headers PRIVATE muster_flags GTest::gmock)
  muster_test_settings(muster_test_headers)
  target_precompile_headers(muster_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <map> <optional> <string>
                                                        <vector> <absl/status/statusor.h> <absl/strings/str_cat.h>
                                                        <absl/time/time.h> <google/protobuf/message.h>)
endfunction()

# The same for all tests, or they cannot share the headers.
function(muster_test_settings name)
  # Two thirds of a test file's compile time would be spent on making it fast.
  target_compile_options(${name} PRIVATE -O0)
  # For ccache: what was compiled with these headers is the same as long as they are.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  else()
    target_compile_options(${name} PRIVATE -fpch-preprocess)
  endif()
  target_compile_definitions(${name} PRIVATE MUSTER_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             MUSTER_BINARY="${CMAKE_BINARY_DIR}/bin/muster")
endfunction()

# muster_test(NAME SOURCES a_test.cc DEPS x [LABEL unit] [TIMEOUT seconds] [NO_MAIN] [THREADS]): one ctest entry.
# THREADS: what it tests has threads; it gets that label, too.
function(muster_test name)
  cmake_parse_arguments(ARG "NO_MAIN;THREADS" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
    if(MUSTER_SANITIZE)  # one takes 90 s there on a quiet machine: only a hang may reach the limit
      set(ARG_TIMEOUT 600)
    endif()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_flags ${ARG_DEPS} GTest::gmock)
  if(ARG_NO_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest)
  else()
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  muster_test_settings(${name})
  target_precompile_headers(${name} REUSE_FROM muster_test_headers)
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_THREADS)
    list(APPEND ARG_LABEL threads)
  endif()
  foreach(label ${ARG_LABEL})
    add_dependencies(tests_${label} ${name})
  endforeach()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
