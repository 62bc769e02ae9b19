# One binary for all tests with real processes: it is the exec stage, the workers and the small hosts of its own tests.
find_library(MUSTER_LIB_rapidcheck NAMES librapidcheck.a REQUIRED)
muster_test(host_shell_test NO_MAIN THREADS
  SOURCES host_shell_main.cc host_shell_support.cc host_shell_spawner_test.cc host_shell_sweep_test.cc
          host_shell_kernel_test.cc environ_reader_test.cc host_shell_error_file_test.cc host_shell_utf8_test.cc
  DEPS muster_process ${MUSTER_LIB_rapidcheck})
muster_test(marker_test SOURCES host_shell_marker_test.cc orphans_test.cc DEPS muster_worker_environment)
muster_test(framed_link_test SOURCES host_shell_framed_link_test.cc DEPS muster_framed_link)
muster_test(host_output_test THREADS SOURCES host_shell_output_test.cc DEPS muster_log ${MUSTER_LIB_rapidcheck})
muster_test(progress_watch_test THREADS SOURCES host_shell_progress_test.cc DEPS muster_host)
muster_test(host_report_test THREADS SOURCES host_shell_report_test.cc DEPS muster_host)
if(TARGET muster_output)
  muster_test(host_files_test THREADS SOURCES host_shell_files_test.cc DEPS muster_output)
endif()
