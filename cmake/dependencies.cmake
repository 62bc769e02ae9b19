# Debian 12's packages. gRPC's imported targets are shared only, so its archives are named one by one; the others
# are static or header-only already. The "unsecure" gRPC leaves OpenSSL out: muster speaks TLS itself, before gRPC sees
# a connection.
find_package(Protobuf REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(nlohmann_json REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

function(muster_find_archive variable name)
  find_library(${variable} NAMES lib${name}.a REQUIRED)
endfunction()

foreach(archive grpc++_unsecure grpc_unsecure gpr upb address_sorting re2 cares z protobuf)
  string(MAKE_C_IDENTIFIER ${archive} id)
  muster_find_archive(MUSTER_LIB_${id} ${archive})
  list(APPEND MUSTER_GRPC_ARCHIVES ${MUSTER_LIB_${id}})
endforeach()

add_library(muster_protobuf INTERFACE)
target_link_libraries(muster_protobuf INTERFACE ${MUSTER_LIB_protobuf} ${MUSTER_LIB_z} Threads::Threads)

# Abseil's imported targets are shared, too. Its archives depend on each other in many ways: one group of them all,
# from which the linker takes what is used.
find_library(MUSTER_LIB_absl_base NAMES libabsl_base.a REQUIRED)
get_filename_component(MUSTER_ABSL_FOLDER ${MUSTER_LIB_absl_base} DIRECTORY)
file(GLOB MUSTER_ABSL_ARCHIVES ${MUSTER_ABSL_FOLDER}/libabsl_*.a)
list(FILTER MUSTER_ABSL_ARCHIVES EXCLUDE REGEX "flags|benchmark")
add_library(muster_absl INTERFACE)
target_link_libraries(muster_absl INTERFACE -Wl,--start-group ${MUSTER_ABSL_ARCHIVES} -Wl,--end-group
                                            Threads::Threads)

add_library(muster_cares INTERFACE)
target_link_libraries(muster_cares INTERFACE ${MUSTER_LIB_cares} Threads::Threads)

add_library(muster_openssl INTERFACE)
foreach(archive ssl crypto)
  muster_find_archive(MUSTER_LIB_${archive} ${archive})
endforeach()
target_link_libraries(muster_openssl INTERFACE ${MUSTER_LIB_ssl} ${MUSTER_LIB_crypto} Threads::Threads
                                               ${CMAKE_DL_LIBS})

# libevent's HTTP client, for the metadata servers of clouds.
add_library(muster_libevent INTERFACE)
foreach(archive event_extra event_core)
  muster_find_archive(MUSTER_LIB_${archive} ${archive})
  target_link_libraries(muster_libevent INTERFACE ${MUSTER_LIB_${archive}})
endforeach()

add_library(muster_grpc INTERFACE)
target_link_libraries(muster_grpc INTERFACE
  -Wl,--start-group ${MUSTER_GRPC_ARCHIVES} -Wl,--end-group
  muster_absl
  Threads::Threads ${CMAKE_DL_LIBS} rt)

add_library(muster_logging INTERFACE)
target_compile_definitions(muster_logging INTERFACE SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
target_link_libraries(muster_logging INTERFACE Threads::Threads)
