muster_library(muster_session
  SOURCES local_session.cc remote_session.cc session.cc session_error.cc
  DEPS muster_rendezvous muster_event_loop muster_base)
