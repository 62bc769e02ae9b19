muster_test(host_core_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/host_core_test.cc ${CMAKE_CURRENT_LIST_DIR}/host_core_leaving_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/host_core_failures_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/host_core_wrapper_test.cc ${CMAKE_CURRENT_LIST_DIR}/session_rest_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/host_core_lease_test.cc
  DEPS muster_host_core)
muster_test(preparing_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/preparing_test.cc DEPS muster_host_core)
muster_test(report_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/report_test.cc DEPS muster_host_core)
muster_test(file_timer_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/file_timer_test.cc DEPS muster_host_core)
