find_package(nlohmann_json REQUIRED)
# The host's shell around its core. No target here links gRPC.
muster_library(muster_framed_link SOURCES framed_link.cc DEPS muster_event_loop)
muster_library(muster_utf8 SOURCES utf8.cc)
muster_library(muster_proc SOURCES proc_scan.cc environ_reader.cc marked.cc shell_job.cc
               DEPS muster_event_loop muster_worker_environment)
muster_library(muster_log SOURCES log.cc writer.cc line_assembler.cc live_rows.cc stderr_tail.cc
               DEPS muster_event_loop muster_logging muster_utf8)
target_link_libraries(muster_log PRIVATE nlohmann_json::nlohmann_json)
muster_library(muster_temporary_folder SOURCES temporary_folder.cc DEPS muster_base)
muster_library(muster_process SOURCES process_setup.cc keyboard.cc exec_stage.cc spawner.cc session_drain.cc sweeper.cc
                                       kernel_timer.cc init.cc
                                      port_keeper.cc oom_watch.cc error_file.cc
               DEPS muster_event_loop muster_host_core muster_proc muster_temporary_folder muster_utf8)
if(TARGET muster_worker_environment)
  muster_library(muster_output SOURCES log_files.cc bounded_file.cc follower.cc worker_output.cc
                 DEPS muster_temporary_folder muster_log muster_host_core)
  muster_library(muster_host SOURCES host_process.cc agent_child.cc closing.cc job_end.cc last_words.cc file_timer_pipe.cc
                                     progress_watch.cc preflight.cc gpu_watch.cc
                 DEPS muster_output muster_process muster_framed_link muster_log muster_host_core muster_worker_environment)
endif()
