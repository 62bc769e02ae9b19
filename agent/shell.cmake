muster_library(muster_session
  SOURCES address.cc local_session.cc remote_session.cc session_error.cc
  DEPS muster_rendezvous muster_event_loop muster_base muster_cares)
muster_library(muster_notice_watch
  SOURCES http_request.cc notice_watch.cc
  DEPS muster_notice muster_session muster_log muster_event_loop muster_libevent)
muster_library(muster_agent
  SOURCES agent_process.cc coordinator_process.cc process_start.cc end_host.cc port_holder.cc
          reach_check.cc serving.cc
  DEPS muster_session muster_notice_watch muster_agent_core muster_framed_link muster_proc muster_temporary_folder
       muster_log muster_utf8)
