# Debian 12's packages. gRPC's imported targets are shared only, so its archives are named one by one; the others
# are static or header-only already. The "unsecure" gRPC leaves OpenSSL out: muster has no TLS yet.
find_package(absl CONFIG REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest CONFIG REQUIRED)
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

add_library(muster_absl INTERFACE)
target_link_libraries(muster_absl INTERFACE absl::status absl::statusor absl::strings absl::str_format absl::time
                                            absl::synchronization)

add_library(muster_cares INTERFACE)
target_link_libraries(muster_cares INTERFACE ${MUSTER_LIB_cares} Threads::Threads)

add_library(muster_grpc INTERFACE)
target_link_libraries(muster_grpc INTERFACE
  -Wl,--start-group ${MUSTER_GRPC_ARCHIVES} -Wl,--end-group
  absl::flat_hash_map absl::flat_hash_set absl::inlined_vector absl::bind_front absl::statusor absl::variant
  absl::optional absl::random_random absl::synchronization absl::cord absl::hash absl::str_format absl::time
  Threads::Threads ${CMAKE_DL_LIBS} rt)

add_library(muster_logging INTERFACE)
target_compile_definitions(muster_logging INTERFACE SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
target_link_libraries(muster_logging INTERFACE Threads::Threads)
