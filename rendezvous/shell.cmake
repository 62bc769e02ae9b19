muster_library(muster_rendezvous
  SOURCES auth.cc channel_options.cc completion_thread.cc coordinator_service.cc grpc_log.cc listen_address.cc
          peer_address.cc server.cc
  DEPS muster_coordinator muster_service muster_base muster_absl)
