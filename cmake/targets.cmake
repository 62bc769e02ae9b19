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

# muster_library(NAME SOURCES a.cc b.cc DEPS x y): the headers lie beside the sources.
function(muster_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC muster_flags ${ARG_DEPS})
endfunction()

# What ThreadSanitizer has something to say about: no other code of ours starts or meets a second thread.
add_custom_target(threaded_tests)

# muster_test(NAME SOURCES a_test.cc DEPS x [LABEL unit] [TIMEOUT seconds] [NO_MAIN] [THREADS]): one ctest entry.
# THREADS: what it tests has threads; it gets that label, too.
function(muster_test name)
  cmake_parse_arguments(ARG "NO_MAIN;THREADS" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_flags ${ARG_DEPS} GTest::gmock)
  if(ARG_NO_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest)
  else()
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  # Two thirds of a test file's compile time would be spent on making it fast.
  target_compile_options(${name} PRIVATE -O0)
  target_compile_definitions(${name} PRIVATE MUSTER_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             MUSTER_BINARY="${CMAKE_BINARY_DIR}/bin/muster")
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_THREADS)
    list(APPEND ARG_LABEL threads)
    add_dependencies(threaded_tests ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
